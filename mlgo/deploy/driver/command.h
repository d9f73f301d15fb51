// What a compiler's command line asks for, as far as it decides whether its compile can be advised.
#ifndef MLGO_COMMAND_H
#define MLGO_COMMAND_H

#include "options.h"
#include "text.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

struct Command {
  const char *Level = "-O0";     // the last of its options for optimization
  const char *Source = nullptr;  // the first of its sources
  const char *Language = nullptr; // of that one, "c" or "c++"; IR and bitcode tell none
  int NumSources = 0;            // C, C++, Objective-C, IR and bitcode; no assembly
  bool HasHeader = false;        // a header is compiled, for sources to come
  bool ReadsInput = false;       // a source comes from the standard input
  bool NamesFolders = false;     // its objects name the folder of zig's cache
  bool HasCode = true;           // it does not end before code is optimized
  bool MakesObject = false;      // it ends before linking, with an object
};

namespace command {

inline const char *const SourceSuffixes[] = {".c",  ".cc",  ".cp",  ".cxx", ".cpp", ".c++", ".CPP", ".C",  ".i",
                                             ".ii", ".m",   ".mm",  ".M",   ".mi",  ".mii", ".ll",  ".bc", nullptr};
inline const char *const CSuffixes[] = {".c", ".i", ".m", ".mi", nullptr};
inline const char *const IrSuffixes[] = {".ll", ".bc", nullptr};
inline const char *const SourceLanguages[] = {"c",           "c++",           "cpp-output", "c++-cpp-output",
                                              "objective-c", "objective-c++", "ir",         nullptr};
inline const char *const HeaderSuffixes[] = {".h", ".hh", ".hpp", ".hxx", ".H", ".h++", nullptr};
inline const char *const Naming[] = {"--coverage", "-fprofile-arcs", "-ftest-coverage", "-gsplit-dwarf", nullptr};

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
static constexpr int MaxFiles = 256;

// Words of a response file, which GNU tools quote as a shell does. A file that cannot be read has none, and neither has
// a pipe or a device: those may not end, and what is read here would be missing to the compiler.
inline void readWords(const char *Path, List<char *> &Words) {
  const int Descriptor = open(Path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  struct stat Status;
  FILE *File = Descriptor >= 0 && fstat(Descriptor, &Status) == 0 && S_ISREG(Status.st_mode) ? fdopen(Descriptor, "rb")
                                                                                             : nullptr;
  if (!File) {
    if (Descriptor >= 0)
      close(Descriptor);
    return;
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
}

inline void read(char *const *Words, size_t NumWords, bool IsCxx, Command &Found, const char *&Language, int &NumFiles,
                 int Depth = 0) {
  for (size_t I = 0; I < NumWords; ++I) {
    const char *Word = Words[I];
    if (Word[0] == '@' && Word[1] && Depth < 8) {
      if (++NumFiles > MaxFiles) { // files that name each other; the compiler refuses them
        Found.HasCode = false;
        return;
      }
      List<char *> Inner;
      readWords(Word + 1, Inner);
      read(Inner.data(), Inner.size(), IsCxx, Found, Language, NumFiles,
           Depth + 1); // its words live on: the process is short
    } else if (isSame(Word, "-")) {
      Found.ReadsInput = true;
    } else if (startsWith(Word, "-x")) {
      Language = Word[2] ? Word + 2 : I + 1 < NumWords ? Words[++I] : nullptr;
      if (Language && isSame(Language, "none"))
        Language = nullptr;
    } else if (startsWith(Word, "-O")) {
      Found.Level = Word;
    } else if (isSame(Word, "-c")) {
      Found.MakesObject = true;
    } else if (isAmong(Word, options::WithoutCode) || startsWith(Word, "-print-") || startsWith(Word, "--print-")) {
      Found.HasCode = false;
    } else if (isAmong(Word, Naming)) {
      Found.NamesFolders = true;
    } else if (isAmong(Word, options::WithValue)) {
      ++I;
    } else if (Word[0] != '-' && (Language ? isHeaderLanguage(Language) : hasSuffix(Word, HeaderSuffixes))) {
      Found.HasHeader = true;
    } else if (Word[0] != '-' && (Language ? isAmong(Language, SourceLanguages) : hasSuffix(Word, SourceSuffixes))) {
      if (!Found.NumSources++) {
        Found.Source = Word;
        Found.Language = languageOf(Word, Language, IsCxx);
      }
    }
  }
}

} // namespace command

inline Command readCommand(char *const *Words, size_t NumWords, bool IsCxx) {
  Command Found;
  const char *Language = nullptr;
  int NumFiles = 0;
  command::read(Words, NumWords, IsCxx, Found, Language, NumFiles);
  return Found;
}

#endif
