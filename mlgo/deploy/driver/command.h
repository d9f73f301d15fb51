// What a compiler's command line asks for, as far as it decides whether its compile can be advised.
#ifndef MLGO_COMMAND_H
#define MLGO_COMMAND_H

#include "options.h"
#include "text.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

// What a word of a command line is.
enum class Kind : char { Option, OfLink, Language, Output, Source, Header, Assembly, Input };

struct Command {
  List<const char *> Words;      // with those of response files in their place
  List<Kind> Kinds;              // of each; a value is of its option's kind
  const char *Level = "-O0";     // the last of its options for optimization
  const char *Source = nullptr;  // the first of its sources
  const char *Language = nullptr; // of all, "c" or "c++"; IR and bitcode tell none, and neither do several
  int NumSources = 0;            // C, C++, Objective-C, IR and bitcode; no assembly
  bool HasHeader = false;        // a header is compiled, for sources to come
  const char *Output = nullptr;  // what its last -o says
  int NumInputs = 0;             // sources, headers and assembly
  bool ReadsInput = false;       // a source comes from the standard input, or a pipe
  bool ShowsWords = false;       // what it writes or says names its own command line
  bool RecordsWords = false;     // so does its object, by an option that a later one may undo
  bool NamesFolders = false;     // what it writes names the folder of zig's cache
  bool HasCode = true;           // it does not end before code is optimized
  bool IsEndless = false;        // its response files name each other, or are very many
  bool MakesObject = false;      // it ends before linking, with an object
  bool MakesText = false;        // the same with assembly or IR
  bool HasProfile = false;       // of what a program executed
};

namespace command {

inline const char *const SourceSuffixes[] = {".c",  ".cc",  ".cp",  ".cxx", ".cpp", ".c++", ".CPP", ".C",  ".i",
                                             ".ii", ".m",   ".mm",  ".M",   ".mi",  ".mii", ".ll",  ".bc", nullptr};
inline const char *const CSuffixes[] = {".c", ".i", ".m", ".mi", nullptr};
inline const char *const IrSuffixes[] = {".ll", ".bc", nullptr};
inline const char *const SourceLanguages[] = {"c",           "c++",           "cpp-output", "c++-cpp-output",
                                              "objective-c", "objective-c++", "ir",         nullptr};
inline const char *const HeaderSuffixes[] = {".h", ".hh", ".hpp", ".hxx", ".H", ".h++", nullptr};
inline const char *const AssemblySuffixes[] = {".s", ".S", ".sx", ".asm", nullptr};
inline const char *const AssemblyLanguages[] = {"assembler", "assembler-with-cpp", nullptr};
inline const char *const Showing[] = {"-MJ", "-gen-cdb-fragment-path", "-v", "--verbose", nullptr};
inline const char *const Naming[] = {"--coverage",   "-coverage",         "-fprofile-arcs",  "-ftest-coverage",
                                     "-gsplit-dwarf", "-gsplit-dwarf=split", "-gsplit-dwarf=single", nullptr};
inline const char *const OfLink[] = {"-l", "-L", "-u", "-z", "-T", "-e", "-s", "-rdynamic", "-Xlinker", nullptr};

inline bool hasSuffix(const char *Path, const char *const *Suffixes) {
  const char *Dot = strrchr(Path, '.');
  return Dot && !strchr(Dot, '/') && isAmong(Dot, Suffixes);
}

// "c" or "c++", by the last -x or by the suffix; a compiler of C++ takes C for C++. Null for IR.
inline const char *languageOf(const char *Source, const char *Told, bool IsCxx) {
  if (Told)
    return isSame(Told, "ir") ? nullptr : strstr(Told, "c++") ? "c++" : "c";
  if (hasSuffix(Source, IrSuffixes))
    return nullptr;
  return IsCxx || !hasSuffix(Source, CSuffixes) ? "c++" : "c";
}

inline bool isHeaderLanguage(const char *Language) {
  const char *Dash = strrchr(Language, '-');
  return Dash && isSame(Dash, "-header");
}

// A command line names no more response files than this, however they name each other; the rest is the compiler's.
static constexpr int MaxFiles = 256, MaxDepth = 8;

// Words of a response file, which GNU tools quote as a shell does. Returns whether it is a file that can be read: a pipe
// or a device may not end, and what is read here would be missing to the compiler.
inline bool readWords(const char *Path, List<char *> &Words) {
  const int Descriptor = open(Path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  struct stat Status;
  FILE *File = Descriptor >= 0 && fstat(Descriptor, &Status) == 0 && S_ISREG(Status.st_mode) ? fdopen(Descriptor, "rb")
                                                                                             : nullptr;
  if (!File) {
    if (Descriptor >= 0)
      close(Descriptor);
    return false;
  }
  List<char> Word;
  bool InWord = false;
  int Quote = 0;
  for (int Char = getc(File);; Char = getc(File)) {
    const bool IsSpace = Char == EOF || (!Quote && strchr(" \t\r\n\f\v", Char));
    if (IsSpace) {
      if (InWord) {
        Word.add('\0');
        Words.add(strdup(Word.data()));
        Word.clear();
      }
      InWord = false;
    } else {
      InWord = true;
      if (Char == Quote)
        Quote = 0;
      else if (!Quote && (Char == '"' || Char == '\''))
        Quote = Char;
      else {
        const int Next = Char == '\\' && Quote != '\'' ? getc(File) : Char;
        if (Next != EOF)
          Word.add(static_cast<char>(Next));
      }
    }
    if (Char == EOF)
      break;
  }
  fclose(File);
  return true;
}

// The words of a command line with those of response files in their place. Returns whether they are few enough.
inline bool expand(char *const *Words, size_t NumWords, List<const char *> &Found, int &NumFiles, int Depth = 0) {
  for (size_t I = 0; I < NumWords; ++I) {
    const bool NamesFile = Words[I][0] == '@' && Words[I][1];
    List<char *> Inner; // its words live on: the process is short
    if (NamesFile && (Depth == MaxDepth || ++NumFiles > MaxFiles)) // files that name each other; clang refuses them
      return false;
    if (!NamesFile || !readWords(Words[I] + 1, Inner))
      Found.add(Words[I]);
    else if (!expand(Inner.data(), Inner.size(), Found, NumFiles, Depth + 1))
      return false;
  }
  return true;
}

// What can be read once only.
inline bool isStream(const char *Path) {
  struct stat State, Null;
  if (isSame(Path, "-"))
    return true;
  if (stat(Path, &State) != 0 || S_ISREG(State.st_mode) || S_ISDIR(State.st_mode))
    return false;
  return stat("/dev/null", &Null) != 0 || State.st_rdev != Null.st_rdev;
}

inline Kind kindOfInput(const char *Word, const char *Language) {
  if (Language ? isHeaderLanguage(Language) : hasSuffix(Word, HeaderSuffixes))
    return Kind::Header;
  if (Language ? isAmong(Language, SourceLanguages) : hasSuffix(Word, SourceSuffixes))
    return Kind::Source;
  return (Language ? isAmong(Language, AssemblyLanguages) : hasSuffix(Word, AssemblySuffixes)) ? Kind::Assembly
                                                                                              : Kind::Input;
}

inline void readInput(const char *Word, const char *Language, bool IsCxx, Command &Found) {
  const Kind Input = kindOfInput(Word, Language);
  Found.Kinds.add(Input);
  Found.NumInputs += Input != Kind::Input;
  Found.HasHeader |= Input == Kind::Header;
  if (Input != Kind::Input)
    Found.ReadsInput |= isStream(Word);
  if (Input != Kind::Source)
    return;
  const char *const Own = languageOf(Word, Language, IsCxx);
  if (!Found.NumSources++) {
    Found.Source = Word;
    Found.Language = Own;
  } else if (!Own || !Found.Language || !isSame(Own, Found.Language)) {
    Found.Language = nullptr;
  }
}

inline void readOption(const char *Word, Command &Found) {
  if (startsWith(Word, "-O"))
    Found.Level = Word;
  else if (isSame(Word, "-c"))
    Found.MakesObject = true;
  else if (isSame(Word, "-S"))
    Found.MakesText = true;
  else if (isAmong(Word, options::WithoutCode) || startsWith(Word, "-print-") || startsWith(Word, "--print-"))
    Found.HasCode = false;
  else if (isAmong(Word, Showing) || startsWith(Word, "-fembed-bitcode"))
    Found.ShowsWords = true;
  else if (startsWith(Word, "-frecord-") || startsWith(Word, "-grecord-"))
    Found.RecordsWords = true;
  else if (startsWith(Word, "-fno-record-") || startsWith(Word, "-gno-record-"))
    Found.RecordsWords = false;
  else if (isAmong(Word, Naming) || startsWith(Word, "-fproc-stat-report"))
    Found.NamesFolders = true;
  for (const char *const *One = options::Profiles; *One; ++One)
    if (startsWith(Word, *One))
      Found.HasProfile = true;
    else if (startsWith(Word, "-fno-") && isSame(Word + strlen("-fno-"), *One + strlen("-f")))
      Found.HasProfile = false;
}

// The value that is part of a word of an option -o or -x, or of their long names.
inline const char *valueIn(const char *Word, const char *Short, const char *Long) {
  if (startsWith(Word, Long))
    return Word[strlen(Long)] == '=' ? Word + strlen(Long) + 1 : nullptr;
  return startsWith(Word, Short) && Word[2] ? Word + 2 : nullptr;
}

inline bool asksForMap(const char *Word) { return strstr(Word, "-Map") || strstr(Word, "--print-map"); }

inline void read(bool IsCxx, Command &Found) {
  const char *Language = nullptr;
  for (size_t I = 0; I < Found.Words.size(); ++I) {
    const char *Word = Found.Words[I];
    if (Word[0] != '-' || !Word[1]) {
      readInput(Word, Language, IsCxx, Found);
      continue;
    }
    const char *Value = isAmong(Word, options::WithValue) && I + 1 < Found.Words.size() ? Found.Words[++I] : nullptr;
    const char *const Joined[] = {valueIn(Word, "-o", "--output"), valueIn(Word, "-x", "--language")};
    Kind Read = isAmong(Word, OfLink) || startsWith(Word, "-Wl,") || startsWith(Word, "-l") || startsWith(Word, "-L")
                    ? Kind::OfLink
                    : Kind::Option;
    if (isSame(Word, "-o") || isSame(Word, "--output") || Joined[0]) {
      Read = Kind::Output;
      Found.Output = Value ? Value : Joined[0];
    } else if (isSame(Word, "-x") || isSame(Word, "--language") || Joined[1]) {
      Read = Kind::Language;
      Language = Value ? Value : Joined[1];
      if (Language && isSame(Language, "none"))
        Language = nullptr;
    } else {
      readOption(Word, Found);
      Found.NamesFolders |= Read == Kind::OfLink && (asksForMap(Word) || (Value && asksForMap(Value)));
      Found.ReadsInput |= Value && (isSame(Word, "-include") || isSame(Word, "-imacros")) && isStream(Value);
    }
    for (int Count = Value ? 2 : 1; Count; --Count)
      Found.Kinds.add(Read);
  }
}

} // namespace command

inline Command readCommand(char *const *Words, size_t NumWords, bool IsCxx) {
  Command Found;
  int NumFiles = 0;
  Found.HasCode = command::expand(Words, NumWords, Found.Words, NumFiles);
  Found.IsEndless = !Found.HasCode;
  command::read(IsCxx, Found);
  return Found;
}

#endif
