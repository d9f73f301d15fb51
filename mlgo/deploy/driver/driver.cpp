// A compiler that asks a policy: `driver cc|c++|rustc [--plain] [--whole|--thin|--ships RECORD] [--any-level|--cold] [--languages L] [--log FILE] -- ARGUMENTS`.
//
// It starts the real compiler with LLVM's interactive channel and answers its questions with the policy that it was made
// with (settings.h). A command that compiles nothing, or not for size, becomes the real compiler at once. Whatever goes
// wrong with the channel, the command runs again as a plain one: a build never fails because of a policy. With --whole,
// objects carry their bitcode before optimization, and links become `mlgo ld`, which merges it and asks once. With --thin,
// compiles for ThinLTO are advised, and links become `mlgo ld`, which has `driver run -- COMMAND` advise the linker.
#include "asked.h"
#include "caches.h"
#include "command.h"
#include "embedded.h"
#include "process.h"
#include "rust.h"
#include "session.h"
#include "settings.h"
#include "text.h"
#include "zig.h"

namespace {

// Take the form from a record of what ships, see mlgo/base/ships.py; the rest of it is of the link. False for others.
bool readShips(Options &Asked, const char *Record) {
  static const char *const Names[] = {"level=", "relocation=", "exports=", "sections=", "folding=", "unwind="};
  List<const char *> Parts;
  zig::split(Record, ',', Parts);
  for (const char *Part : Parts) {
    const char *const Form = startsWith(Part, "form=") ? Part + strlen("form=") : Part;
    const bool IsForm = isSame(Form, "objects") || isSame(Form, "whole") || isSame(Form, "thin");
    bool IsKnown = IsForm;
    for (const char *Name : Names)
      IsKnown |= startsWith(Part, Name);
    if (!IsKnown)
      return false;
    if (IsForm) {
      Asked.IsWhole = isSame(Form, "whole");
      Asked.IsThin = isSame(Form, "thin");
    }
  }
  return true;
}

// Changes with a file: a hash of its content or, of a large one, of what changes with that. `drivers.py` has the same.
unsigned long long hashOf(const char *Path) {
  Hash Found;
  struct stat State;
  if (stat(Path, &State) != 0)
    return 0;
  if (!S_ISREG(State.st_mode) || State.st_size > settings::MaxRead) {
    const long long Numbers[] = {State.st_size,         static_cast<long long>(State.st_ino),
                                 State.st_mtim.tv_sec,  State.st_mtim.tv_nsec,
                                 State.st_ctim.tv_sec,  State.st_ctim.tv_nsec};
    Found.add(Numbers, sizeof Numbers);
    return Found.State;
  }
  char Bytes[1 << 16];
  ssize_t Count;
  const int File = open(Path, O_RDONLY | O_CLOEXEC);
  while (File >= 0 && (Count = read(File, Bytes, sizeof Bytes)) > 0)
    Found.add(Bytes, Count);
  if (File >= 0)
    close(File);
  return Found.State;
}

// What the driver was made from has not changed since.
bool isCurrent() {
  for (const settings::File &One : settings::MadeFrom)
    if (hashOf(One.Path) != One.Hash)
      return false;
  return true;
}

// The real compiler's words: its name, advice, the user's, what makes zig's driver take -Oz. A whole command has its name.
void addWords(List<const char *> &Words, const Options &Asked, const Command &Given, const char *const *Advice,
              size_t NumAdvice, char *const *Arguments, size_t NumArguments) {
  for (const char *const *Word = Asked.IsCxx ? settings::Cxx : settings::C; *Word && !Asked.IsCommand; ++Word)
    Words.add(*Word);
  if (!Asked.IsCommand)
    Words.add(Advice, NumAdvice);
  for (size_t I = 0; I < NumArguments; ++I)
    Words.add(Arguments[I]);
  if (Asked.IsCommand)
    Words.add(Advice, NumAdvice);
  const bool Compiles = Given.NumSources || Given.HasHeader || Given.ReadsInput;
  if (settings::IsZig && isSame(Given.Level, "-Oz") && Compiles && !Asked.IsCommand) { // it takes it for -Os
    Words.add("-Xclang");
    Words.add("-Oz");
  }
  if (settings::IsZig && !Asked.IsCommand)
    forZig(Words, Given);
  Words.add(nullptr);
}

[[noreturn]] void becomeCompiler(const Options &Asked, const Command &Given, char *const *Arguments, size_t NumArguments,
                         const char *const *More = nullptr, size_t NumMore = 0) {
  List<const char *> Words;
  addWords(Words, Asked, Given, More, NumMore, Arguments, NumArguments);
  become(Words.data());
}

// Becomes the mlgo command itself, which is Python. Returns only if that cannot be started.
void becomeMlgo(const char *Action, char *const *Arguments, size_t NumArguments) {
  List<const char *> Words;
  for (const char *const *Word = settings::Maker; *Word; ++Word)
    Words.add(*Word);
  Words.add(Action);
  for (size_t I = 0; I < NumArguments; ++I)
    Words.add(Arguments[I]);
  Words.add(nullptr);
  execv(Words[0], const_cast<char *const *>(Words.data()));
}

// Why a command shall not be advised; null if it shall. Most commands of a build compile nothing, or for speed.
const char *whyNot(const Options &Asked, const Command &Given) {
  if (Asked.IsPlain && !Asked.IsWhole)
    return "--plain";
  if (!Given.HasCode || !(Given.NumSources || Given.ReadsInput))
    return "it compiles nothing";
  if (Asked.IsCold && !Given.HasProfile)
    return "it has no profile (-fprofile-use, -fprofile-sample-use), and --cold was given";
  if (!Asked.AnyLevel && !isAmong(Given.Level, settings::Levels))
    return "it compiles at another level than the policy was trained for";
  return nullptr;
}

// Whether the policy leaves a source to the compiler.
bool isLeft(const Options &Asked, const Command &Given) {
  if (!Given.Language || !Asked.Languages.size())
    return Given.Language && !isAmong(Given.Language, settings::Languages);
  for (const char *One : Asked.Languages)
    if (isSame(One, Given.Language))
      return false;
  return true;
}

// Why a command that shall be advised cannot be; null if it can.
const char *whyImpossible(const Command &Given) {
  if (Given.ReadsInput)
    return "the standard input could not be read again if something went wrong";
  if (Given.NumSources > 1 && settings::IsZig) // a clang compiles one after another
    return "several sources in one command would ask at the same time";
  if (Given.ShowsWords || Given.RecordsWords || (Given.NamesFolders && settings::IsZig))
    return "what it writes would name a temporary folder";
  return nullptr;
}

// The file that a command of one source makes.
void addOutput(const Command &Given, List<char> &Name) {
  const char *Slash = Given.Source ? strrchr(Given.Source, '/') : nullptr, *Stem = Slash ? Slash + 1 : Given.Source;
  const char *Dot = Stem ? strrchr(Stem, '.') : nullptr;
  if (Given.Output || !Stem || !(Given.MakesObject || Given.MakesText))
    Name.add(Given.Output ? Given.Output : "a.out", strlen(Given.Output ? Given.Output : "a.out") + 1);
  else {
    Name.add(Stem, Dot ? Dot - Stem : strlen(Stem));
    Name.add(Given.MakesText ? ".s" : ".o", 3);
  }
}

// Whether a file holds a text.
bool holds(const char *Path, const char *Text) {
  const int File = open(Path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  struct stat State;
  bool Found = false;
  if (File >= 0 && fstat(File, &State) == 0 && S_ISREG(State.st_mode) && State.st_size > 0) {
    void *Bytes = mmap(nullptr, State.st_size, PROT_READ, MAP_PRIVATE, File, 0);
    if (Bytes != MAP_FAILED) {
      Found = memmem(Bytes, State.st_size, Text, strlen(Text)) != nullptr;
      munmap(Bytes, State.st_size);
    }
  }
  if (File >= 0)
    close(File);
  return Found;
}

// Runs a command without the advice that it should have had. Says why not, unless it does not compile at all.
int again(const Options &Asked, const Command &Given, char *const *Arguments, size_t NumArguments, const char *Outcome,
          const char *Reason, double Start) {
  List<const char *> Words;
  addWords(Words, Asked, Given, nullptr, 0, Arguments, NumArguments);
  const int Status = runWithin(Words.data());
  if (Status == 0)
    warn(Reason);
  log(Asked, Given.Source, Status ? "plain" : Outcome, Status ? "it does not compile" : Reason, 0, 0, now() - Start);
  return Status;
}

// Compiles under advice, or to an object that carries bitcode; where that cannot be, as the plain compiler.
int compile(const Options &Asked, const Command &Given, char *const *Arguments, size_t NumArguments,
            bool Embeds = false) {
  const double Start = now();
  Folder Place;
  if (!Place.make()) {
    Place.clear();
    return again(Asked, Given, Arguments, NumArguments, "failed", "the temporary folder cannot be written (TMPDIR)",
                 Start);
  }
  List<const char *> Advice, Words;
  List<char> Option, Output, Named;
  Said Text;
  if (Asked.IsThin)
    Advice.add("-flto=thin");
  static const char *const InCold[] = {"-mllvm", "-ml-inliner-skip-policy=if-caller-not-cold"};
  if (Asked.IsCold)
    Advice.add(InCold, 2);
  const char *const Terminal = getenv("TERM");
  if (!Asked.IsCommand && isatty(2) && Terminal && !isSame(Terminal, "dumb")) // of which the compiler sees a pipe
    Advice.add("-fdiagnostics-color=always");
  List<char *> All;
  All.add(Arguments, NumArguments);
  for (const char *Word : embedded::Options)
    if (Embeds)
      All.add(const_cast<char *>(Word));
  for (const char *const *Word = settings::Advice; *Word && !Embeds; ++Word) {
    if (!strchr(*Word, '@')) {
      Advice.add(*Word);
      continue;
    }
    Option.add(*Word, strlen(*Word) - 1);
    Option.add(Place.Base, strlen(Place.Base) + 1);
    Advice.add(Option.data());
  }
  addWords(Words, Asked, Given, Advice.data(), Advice.size(), All.data(), All.size());
  // zig keeps every object by its command line, and no two of them name the same channel.
  const char *Cache = getenv("ZIG_LOCAL_CACHE_DIR"), *Kept = Cache ? strdup(Cache) : nullptr;
  if (!Embeds) {
    setenv("ZIG_LOCAL_CACHE_DIR", Place.Path, 1);
    caches::prepare();
  }
  const char *const Crashes = "CLANG_CRASH_DIAGNOSTICS_DIR"; // where clang says how it was started
  const bool HasCrashes = getenv(Crashes);
  setenv(Crashes, Place.Path, 0);
  Named.add(Place.Path, strlen(Place.Path) + 1);
  const Outcome Found = advise(Words, Place, Text);
  if (Kept)
    setenv("ZIG_LOCAL_CACHE_DIR", Kept, 1);
  else
    unsetenv("ZIG_LOCAL_CACHE_DIR");
  if (!HasCrashes)
    unsetenv(Crashes);
  addOutput(Given, Output);
  const char *Wrong = Found.Wrong;
  if (!Wrong && !Asked.IsCommand &&
      (holds(Output.data(), Named.data()) ||
       memmem(Text.Kept.data(), Text.Kept.size(), Named.data(), Named.size() - 1)))
    Wrong = "what it writes would name a temporary folder";
  else if (!Wrong && Embeds && !embedded::mark(Output.data()))
    Wrong = "its object can carry no bitcode";
  if (Wrong)
    return again(Asked, Given, Arguments, NumArguments, "failed", Wrong, Start);
  Text.pass();
  log(Asked, Given.Source, Embeds ? "plain" : "advised", Embeds ? "the policy is asked when it is linked" : "",
      Found.NumQuestions, Found.NumChanges, now() - Start);
  return 0;
}

// zig's driver makes one object of several sources, and renames a file over a pipe or a device; a clang does neither.
// So commands that would meet that become several, or write to a file first: of this driver, with the same options.
class Relay {
public:
  // Words: of this command, in which the compiler's arguments come behind the one of that number.
  Relay(const Command &Given, char *const *Words, int NumWords) : Given(Given), Words(Words), NumWords(NumWords) {}

  // -c or -S of several sources. As with clang, a source that does not compile keeps no other from it.
  int compileEach() {
    int Status = 0;
    for (size_t I = 0; I < Given.Kinds.size(); ++I) {
      if (!isCompiled(I))
        continue;
      List<const char *> Words;
      for (size_t Other = 0; Other < Given.Kinds.size(); ++Other)
        if (Other == I || !isCompiled(Other))
          Words.add(Given.Words[Other]);
      const int Ended = run(Words);
      Status = Status ? Status : Ended;
    }
    return Status;
  }

  // Compiles each of several sources to an object, and links these in their places. Returns whether all of that worked;
  // where it does not, nothing is said.
  bool compileAndLink() {
    List<const char *> Linked;
    bool Works = start();
    Said = memfd_create("errors", MFD_CLOEXEC);
    for (size_t I = 0; Works && I < Given.Kinds.size(); ++I) {
      if (Given.Kinds[I] == Kind::Source) {
        Linked.add(name(I, ".o"));
        Works = compileTo(I, Linked[Linked.size() - 1]) == 0;
      } else if (Given.Kinds[I] != Kind::Language) {
        Linked.add(Given.Words[I]);
      }
    }
    if (!Works || run(Linked) != 0)
      return finish(false);
    copyToErrors(Said);
    return finish(true);
  }

  // Writes to a file, and from there to what is no file.
  int writeThrough() {
    if (!start()) {
      fprintf(stderr, "mlgo cc: error: the temporary folder cannot be written (TMPDIR)\n");
      return 1;
    }
    const char *const Output = name(0, Given.MakesText ? ".s" : ".o");
    List<const char *> Words;
    bool NamesTarget = false, HasTarget = false;
    for (size_t I = 0; I < Given.Kinds.size(); ++I) {
      if (Given.Kinds[I] != Kind::Output)
        Words.add(Given.Words[I]);
      HasTarget |= isSame(Given.Words[I], "-MT") || isSame(Given.Words[I], "-MQ");
      NamesTarget |= startsWith(Given.Words[I], "-M") || startsWith(Given.Words[I], "-Wp,-M");
    }
    Words.add("-o");
    Words.add(Output);
    if (NamesTarget && !HasTarget) {
      Words.add("-MT");
      Words.add(Given.Output);
    }
    const int Status = run(Words);
    return finish(Status ? Status : copy(Output));
  }

private:
  bool isCompiled(size_t I) const {
    return Given.Kinds[I] == Kind::Source || Given.Kinds[I] == Kind::Header || Given.Kinds[I] == Kind::Assembly;
  }

  bool start() { return Place.make() && Guarding.start(Place.Path); }

  int finish(int Status) {
    Place.clear();
    Guarding.dismiss();
    return Status;
  }

  // A file in the folder, in one of its own. It keeps the source's name, which symbols of debuggers show.
  const char *name(size_t I, const char *Suffix) {
    const char *Word = Given.Words[I], *Slash = strrchr(Word, '/');
    char Path[sizeof Place.Path + 32];
    snprintf(Path, sizeof Path, "%s/%zu", Place.Path, I);
    mkdir(Path, 0700);
    List<char> Name;
    Name.add(Path, strlen(Path));
    Name.add('/');
    Name.add(Slash ? Slash + 1 : Word, strlen(Slash ? Slash + 1 : Word));
    Name.add(Suffix, strlen(Suffix) + 1);
    return strdup(Name.data());
  }

  int compileTo(size_t Source, const char *Object) {
    List<const char *> Words;
    for (size_t I = 0; I < Given.Kinds.size(); ++I)
      if (I == Source || Given.Kinds[I] == Kind::Option || Given.Kinds[I] == Kind::Language)
        Words.add(Given.Words[I]);
    const char *const More[] = {"-c", "-o", Object};
    Words.add(More, 3);
    return run(Words);
  }

  int copy(const char *From) {
    const bool IsStandard = isSame(Given.Output, "-");
    const int Input = open(From, O_RDONLY | O_CLOEXEC), Output = IsStandard ? 1 : open(Given.Output, O_WRONLY | O_CLOEXEC);
    char Bytes[1 << 16];
    ssize_t Count = -1;
    while (Input >= 0 && Output >= 0 && (Count = read(Input, Bytes, sizeof Bytes)) > 0)
      if (!writeAll(Output, Bytes, Count))
        break;
    if (Count == 0)
      return 0;
    fprintf(stderr, "mlgo cc: error: cannot write %s: %s\n", Given.Output, strerror(errno));
    return 1;
  }

  int run(const List<const char *> &Arguments) {
    List<const char *> Command;
    const char *const Start[] = {"/proc/self/exe", Words[1], "--new"};
    Command.add(Start, 3);
    for (int I = isSame(Words[2], "--new") ? 3 : 2; I < NumWords; ++I)
      Command.add(Words[I]);
    Command.add("--");
    Command.add(Arguments.data(), Arguments.size());
    Command.add(nullptr);
    return runWithin(Command.data(), Said);
  }

  const Command &Given;
  char *const *const Words;
  const int NumWords;
  int Said = 2; // where the commands write their errors
  Folder Place;
  Guard Guarding;
};

// Whether a command writes to what zig would rename a file over.
bool isThrough(const Command &Given) {
  struct stat State;
  if (!Given.Output)
    return false;
  return isSame(Given.Output, "-") ? Given.MakesText
                                   : stat(Given.Output, &State) == 0 && !S_ISREG(State.st_mode) && !S_ISDIR(State.st_mode);
}

// Whether a link writes nothing that names the objects of its sources.
bool isDivided(const Command &Given) {
  for (const char *Word : Given.Words)
    if (strstr(Word, "dependency-file") || startsWith(Word, "-save-temps") || startsWith(Word, "--save-temps"))
      return false;
  return !Given.HasHeader && !Given.ReadsInput && !Given.ShowsWords && !Given.RecordsWords &&
         !Given.NamesFolders;
}

} // namespace

int main(int NumWords, char **Words) {
  Options Asked;
  Asked.IsCxx = NumWords > 1 && isSame(Words[1], "c++");
  Asked.IsCommand = NumWords > 1 && isSame(Words[1], "run");
  const bool IsRust = NumWords > 1 && isSame(Words[1], "rustc");
  if (IsRust)
    Program = "mlgo rustc";
  int First = 2;
  const bool IsNew = NumWords > 2 && isSame(Words[2], "--new"); // says its maker, and this driver to itself
  if (IsNew)
    ++First;
  else if (NumWords > 1 && !isCurrent()) { // its maker makes it anew and starts it, or says what is wrong
    becomeMlgo(Words[1], Words + 2, NumWords - 2);
    warn("the policy has changed, and Python cannot be started to read it");
    Asked.IsPlain = true;
  }
  if (settings::IsZig) // zig asks $CC where the system's C library is, and that is this driver again
    unsetenv("CC");
  const char *Ships = getenv("MLGO_SHIPS");
  for (int Word = First; Word < NumWords && !isSame(Words[Word], "--"); ++Word)
    if (startsWith(Words[Word], "--ships="))
      Ships = Words[Word] + strlen("--ships=");
    else if (isSame(Words[Word], "--ships") && Word + 1 < NumWords)
      Ships = Words[Word + 1];
  if (Ships && !readShips(Asked, Ships)) {
    fprintf(stderr, "mlgo cc: error: %s is no record of what ships; an example is whole,folding=all,unwind=no\n", Ships);
    return 2;
  }
  for (; First < NumWords; ++First) {
    if (isSame(Words[First], "--plain"))
      Asked.IsPlain = true;
    else if (isSame(Words[First], "--whole"))
      Asked.IsWhole = true;
    else if (isSame(Words[First], "--thin"))
      Asked.IsThin = true;
    else if (isSame(Words[First], "--any-level"))
      Asked.AnyLevel = true;
    else if (isSame(Words[First], "--cold"))
      Asked.IsCold = Asked.AnyLevel = true; // profiles are of builds for speed
    else if (isSame(Words[First], "--log") && First + 1 < NumWords)
      Asked.Log = Words[++First];
    else if (startsWith(Words[First], "--log="))
      Asked.Log = Words[First] + strlen("--log=");
    else if (isSame(Words[First], "--languages") && First + 1 < NumWords)
      zig::split(Words[++First], ',', Asked.Languages);
    else if (startsWith(Words[First], "--languages="))
      zig::split(Words[First] + strlen("--languages="), ',', Asked.Languages);
    else if ((isSame(Words[First], "--policy") || isSame(Words[First], "--compiler") ||
              isSame(Words[First], "--ships")) && First + 1 < NumWords)
      ++First; // read already, or by which it was found
    else if (!startsWith(Words[First], "--policy=") && !startsWith(Words[First], "--compiler=") &&
             !startsWith(Words[First], "--ships="))
      break;
  }
  if (Asked.IsCold && (Asked.IsWhole || Asked.IsThin)) {
    fprintf(stderr, "mlgo cc: error: --cold needs objects with code; leave --whole, --thin and their --ships away\n");
    return 2;
  }
  for (const char *One : Asked.Languages)
    if (!isSame(One, "c") && !isSame(One, "c++")) {
      fprintf(stderr, "mlgo cc: error: --languages %s: these are c and c++, with a comma between both\n", One);
      return 2;
    }
  const bool IsForCache = !IsRust && caches::areAsking();
  if (First < NumWords && IsForCache && !isSame(Words[First], "--")) // ccache has put it before the source
    NumWords = caches::withoutDashes(Words, First--, NumWords);
  else if (First >= NumWords || !isSame(Words[First], "--")) {
    fprintf(stderr,
            "mlgo cc: error: unknown option %s; the compiler's arguments come after --, for example mlgo cc -- -Oz -c "
            "file.c\n",
            First < NumWords ? Words[First] : "");
    return 2;
  }
  ++First;
  char *const *Arguments = Words + First;
  const size_t NumArguments = NumWords > First ? NumWords - First : 0;
  if (IsRust)
    return rust::run(Asked, Arguments, NumArguments);
  const Command Given = readCommand(Arguments, NumArguments, Asked.IsCxx);
  if (settings::IsZig && Given.IsEndless) { // clang refuses what zig would read without end
    fprintf(stderr, "mlgo cc: error: response files name each other, or are more than %d\n", command::MaxFiles);
    return 1;
  }
  if (Asked.IsCommand)
    return compile(Asked, Given, Arguments, NumArguments);
  for (const char *Word : Given.Words)
    if (IsForCache && isSame(Word, "-E")) {
      List<const char *> Plain;
      addWords(Plain, Asked, Given, nullptr, 0, Arguments, NumArguments);
      return caches::preprocess(Plain.data(), Given.Output);
    }
  const bool IsLinked = Asked.IsWhole || (Asked.IsThin && !Asked.IsPlain); // by mlgo ld
  if (settings::IsZig) {
    const bool IsLink = !Given.MakesObject && !Given.MakesText;
    Relay Several(Given, Words, First - 1);
    if (isThrough(Given) && !(IsLinked && !Given.NumInputs))
      return Several.writeThrough();
    if (Given.NumInputs > 1 && Given.HasCode && !IsLink && !Given.Output)
      return Several.compileEach();
    if (Given.NumSources > 1 && IsLink && isDivided(Given) && !whyNot(Asked, Given) && Several.compileAndLink())
      return 0;
  }
  if (IsLinked && Given.HasCode && !Given.ReadsInput) {
    if (!Given.NumSources && !Given.HasHeader && NumArguments) {
      becomeMlgo(Asked.IsCxx ? "ld++" : "ld", Words + 2 + IsNew, NumWords - 2 - IsNew);
      warn("Python cannot be started to link");
    }
    const bool CanEmbed = !Given.MakesText && !Given.RecordsWords && !isThrough(Given);
    if (Given.MakesObject && Asked.IsWhole && CanEmbed && !whyNot(Asked, Given))
      return compile(Asked, Given, Arguments, NumArguments, true);
  }
  List<const char *> More;
  const char *Reason = Asked.IsPlain ? "--plain" : whyNot(Asked, Given);
  if (!Reason && isLeft(Asked, Given)) {
    Reason = "the policy leaves this language to the compiler";
    if (Asked.IsThin && Given.MakesObject)
      More.add("-flto=thin");
  }
  const char *const Hindrance = Reason ? nullptr : whyImpossible(Given);
  if (Hindrance)
    return again(Asked, Given, Arguments, NumArguments, "plain", Hindrance, now());
  if (!Reason)
    return compile(Asked, Given, Arguments, NumArguments);
  log(Asked, Given.Source, "plain", Reason, 0, 0, 0.0);
  becomeCompiler(Asked, Given, Arguments, NumArguments, More.data(), More.size());
}
