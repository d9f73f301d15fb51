// `driver rustc -- RUSTC ARGUMENTS`, as cargo calls a wrapper: a crate that is compiled for size is compiled as one unit,
// under the policy. Everything else is rustc's alone.
//
// rustc's traps (measured with LLVM 22): with the inliner set and no channel it ends well and inlines almost nothing, so
// both options come together. Several units, and ThinLTO, ask in threads over one channel. Options of LLVM count in a
// crate's hash, so the channel has the same name in each compile.
#ifndef MLGO_RUST_H
#define MLGO_RUST_H

#include "asked.h"
#include "caches.h"
#include "process.h"
#include "session.h"
#include "settings.h"
#include "text.h"

namespace rust {

struct Crate {
  const char *Name = nullptr, *Source = nullptr;
  char Level[8] = "-O0"; // as clang has it
  const char *Lto = "";
  bool IsVersion = false;     // asks for rustc's version and that of its LLVM
  bool IsQuery = false;       // compiles nothing
  bool IsOfBuild = false;     // runs while others are built: a build script, a procedural macro
  bool IsIncremental = false;
  bool IsProgram = true;      // or a library for other languages: nothing of Rust is made of it
  bool IsForLinker = false;   // its objects are optimized once more, by a linker or by rustc
};

// What `-C NAME=VALUE` says; an option without a value is on.
inline void readCodegen(const char *Option, Crate &Found) {
  const char *Equals = strchr(Option, '='), *Value = Equals ? Equals + 1 : "";
  const size_t Length = Equals ? Equals - Option : strlen(Option);
  char Name[32] = "";
  for (size_t I = 0; I < Length && I + 1 < sizeof Name; ++I) // rustc takes both spellings
    Name[I] = Option[I] == '_' ? '-' : Option[I];
  const bool IsOff = isSame(Value, "no") || isSame(Value, "n") || isSame(Value, "off") || isSame(Value, "false");
  if (isSame(Name, "opt-level"))
    snprintf(Found.Level, sizeof Found.Level, "-O%s", Value);
  else if (isSame(Name, "lto"))
    Found.Lto = IsOff ? "" : Value;
  else if (isSame(Name, "incremental"))
    Found.IsIncremental = true;
  else if (isSame(Name, "linker-plugin-lto"))
    Found.IsForLinker = !IsOff;
}

inline void readCrateType(const char *Type, Crate &Found) {
  Found.IsOfBuild |= isSame(Type, "proc-macro");
  Found.IsProgram = !isSame(Type, "lib") && !isSame(Type, "rlib");
}

// Whether `--emit` asks for what LLVM makes; each kind may name a file.
inline bool hasCode(const char *Kinds) {
  static const char *const Code[] = {"link", "obj", "asm", "llvm-bc", "llvm-ir"};
  for (const char *Kind = Kinds; Kind; Kind = strchr(Kind, ',') ? strchr(Kind, ',') + 1 : nullptr)
    for (const char *One : Code)
      if (startsWith(Kind, One) && strchr(",=", Kind[strlen(One)])) // or its end
        return true;
  return false;
}

// The words of a command line with those of files in their place, one a line.
inline void expand(char *const *Words, size_t NumWords, List<const char *> &Found) {
  for (size_t I = 0; I < NumWords; ++I) {
    struct stat State; // a pipe would be waited for, and what is read here missing to rustc
    const bool NamesFile = Words[I][0] == '@' && stat(Words[I] + 1, &State) == 0 && S_ISREG(State.st_mode);
    FILE *const File = NamesFile ? fopen(Words[I] + 1, "re") : nullptr;
    if (!File) {
      Found.add(Words[I]);
    } else {
      char *Line = nullptr;
      size_t Room = 0;
      for (ssize_t Length; (Length = getline(&Line, &Room, File)) >= 0;) {
        while (Length && (Line[Length - 1] == '\n' || Line[Length - 1] == '\r'))
          Line[--Length] = '\0';
        Found.add(strdup(Line)); // lives on: the process is short
      }
      free(Line);
    }
    if (File)
      fclose(File);
  }
}

inline Crate read(const List<const char *> &Words) {
  Crate Found;
  bool HasVersion = false, IsVerbose = false, HasCode = true;
  for (size_t I = 1; I < Words.size(); ++I) {
    const char *const Word = Words[I];
    // The value of an option that stands behind it, or behind "=".
    const auto valueOf = [&](const char *Option) -> const char * {
      if (!startsWith(Word, Option))
        return nullptr;
      const char *const Rest = Word + strlen(Option);
      return *Rest == '=' ? Rest + 1 : !*Rest && I + 1 < Words.size() ? Words[++I] : nullptr;
    };
    const size_t Length = strlen(Word);
    if (const char *const Name = valueOf("--crate-name"))
      Found.Name = Name;
    else if (const char *const Type = valueOf("--crate-type"))
      readCrateType(Type, Found);
    else if (const char *const Kinds = valueOf("--emit"))
      HasCode = hasCode(Kinds);
    else if (const char *const Option = valueOf("--codegen"))
      readCodegen(Option, Found);
    else if (startsWith(Word, "-C") && (Word[2] || I + 1 < Words.size()))
      readCodegen(Word[2] ? Word + 2 : Words[++I], Found);
    else if (valueOf("--print") || isSame(Word, "-"))
      Found.IsQuery = true;
    else if (isSame(Word, "-O"))
      snprintf(Found.Level, sizeof Found.Level, "-O3");
    else if (isSame(Word, "--version"))
      HasVersion = true;
    else if (isSame(Word, "--verbose"))
      IsVerbose = true;
    else if (Word[0] == '-' && Length <= 3 && strspn(Word + 1, "vV") == Length - 1) {
      HasVersion |= strchr(Word, 'V') != nullptr;
      IsVerbose |= strchr(Word, 'v') != nullptr;
    } else if (Length > 3 && Word[0] != '-' && isSame(Word + Length - 3, ".rs"))
      Found.Source = Word;
  }
  Found.IsVersion = HasVersion && IsVerbose;
  Found.IsQuery |= HasVersion || !Found.Source || !HasCode;
  Found.IsOfBuild |= Found.Name && startsWith(Found.Name, "build_script_");
  if (!Found.Name)
    Found.Name = Found.Source;
  return Found;
}

// Why a crate is rustc's alone; null if the policy shall be asked. What a user would not expect is said.
inline const char *whyNot(const Options &Asked, const Crate &Given, bool &IsUnexpected) {
  if (Given.IsQuery)
    return "it compiles nothing";
  if (Given.IsOfBuild)
    return "it is of the build, and does not ship";
  const bool IsForSize = isAmong("-Oz", settings::Levels) || isAmong("-Os", settings::Levels);
  const bool IsSmall = isSame(Given.Level, "-Os") || isSame(Given.Level, "-Oz");
  if (!Asked.AnyLevel && !isAmong(Given.Level, settings::Levels) && !(IsForSize && IsSmall))
    return "it compiles at another level than the policy was trained for";
  IsUnexpected = !Asked.IsPlain;
  if (!isAmong("rust", settings::Languages))
    return "the policy was trained for other languages";
  if (Given.IsIncremental)
    return "an incremental build compiles many units";
  if (isSame(Given.Lto, "thin"))
    return "lto = \"thin\" asks from many threads at a time; use \"fat\", or none";
  if (Given.IsForLinker && Given.IsProgram)
    return "with linker-plugin-lto the linker optimizes once more; use lto = \"fat\"";
  if (caches::areAsking())
    return "sccache does not know of the policy";
  IsUnexpected = false;
  return Asked.IsPlain ? "--plain" : nullptr;
}

// Says rustc's version and the policy: cargo compiles again what was compiled with another version.
inline int sayVersion(const Options &Asked, const List<const char *> &Words) {
  const int Status = runWithin(Words.data());
  if (Status == 0 && Asked.IsPlain)
    printf("mlgo: no policy, one unit\n");
  else if (Status == 0) {
    Hash Policy;
    for (int File = 0; File < 2; ++File) // its description and its weights
      Policy.add(&settings::MadeFrom[File].Hash, sizeof settings::MadeFrom[File].Hash);
    printf("mlgo: policy %016llx%s, one unit\n", Policy.State, Asked.AnyLevel ? ", any level" : "");
  }
  return Status;
}

// The folder of the channel under a name that is the same in each process: the compiler inherits it.
inline bool nameChannel(const Folder &Place, char *Base, size_t Size) {
  const int Opened = open(Place.Path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const int Inherited = Opened < 0 ? -1 : fcntl(Opened, F_DUPFD, 100); // beyond what cargo hands down
  close(Opened);
  snprintf(Base, Size, "/proc/self/fd/%d/channel", Inherited);
  return Inherited >= 0;
}

// Compiles a crate under the policy; where that cannot be, as rustc alone.
inline int compile(const Options &Asked, const Crate &Given, const List<const char *> &Plain) {
  const double Start = now();
  Folder Place;
  char Base[64];
  List<const char *> Words;
  List<char> Option;
  Said Text;
  Outcome Found;
  Words.add(Plain.data(), Plain.size() - 1);
  Text.Until = "\"$message_type\":\"artifact\""; // from there on it is about code, and cargo starts what waits for it
  if (!Place.make() || !nameChannel(Place, Base, sizeof Base))
    Found.Wrong = "no channel can be made (TMPDIR, ulimit -n)";
  else {
    for (const char *const *Word = settings::Advice; *Word; ++Word) {
      if (isSame(*Word, "-mllvm"))
        continue;
      Option.clear();
      Option.add("-Cllvm-args=", strlen("-Cllvm-args="));
      const bool NamesChannel = strchr(*Word, '@');
      Option.add(*Word, strlen(*Word) - NamesChannel);
      Option.add(NamesChannel ? Base : "", (NamesChannel ? strlen(Base) : 0) + 1);
      Words.add(strdup(Option.data()));
    }
    Words.add(nullptr);
    Found = advise(Words, Place, Text);
  }
  if (!Found.Wrong) {
    Text.pass();
    log(Asked, Given.Name, "advised", "", Found.NumQuestions, Found.NumChanges, now() - Start);
    return 0;
  }
  const int Errors = Text.IsPassed ? memfd_create("errors", MFD_CLOEXEC) : 2; // cargo has been given what it says
  const int Status = runWithin(Plain.data(), Errors);
  if (Status && Errors != 2)
    copyToErrors(Errors);
  else if (!Status)
    warn(Found.Wrong);
  log(Asked, Given.Name, Status ? "plain" : "failed", Status ? "it does not compile" : Found.Wrong, 0, 0, now() - Start);
  return Status;
}

// Arguments: rustc's path, or another wrapper's, and what it takes.
inline int run(const Options &Asked, char *const *Arguments, size_t NumArguments) {
  List<const char *> Words, Read;
  expand(Arguments, NumArguments, Read);
  const Crate Given = read(Read);
  bool IsUnexpected = false;
  const char *const Reason = whyNot(Asked, Given, IsUnexpected);
  for (size_t I = 0; I < NumArguments; ++I)
    Words.add(Arguments[I]);
  if (!Reason || isSame(Reason, "--plain")) // to be compared with
    Words.add("-Ccodegen-units=1");
  Words.add(nullptr);
  if (Given.IsVersion)
    return sayVersion(Asked, Words);
  if (!Reason)
    return compile(Asked, Given, Words);
  if (IsUnexpected)
    warn(Reason);
  if (!Given.IsQuery)
    log(Asked, Given.Name, "plain", Reason, 0, 0, 0.0);
  become(Words.data());
}

} // namespace rust

#endif
