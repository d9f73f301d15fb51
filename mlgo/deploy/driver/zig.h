// A command of clang for zig's driver, which reads some options in another way, and takes few of the linker's.
#ifndef MLGO_ZIG_H
#define MLGO_ZIG_H

#include "command.h"
#include "options.h"
#include "process.h"
#include "text.h"

namespace zig {

inline bool isOfLinker(const char *Word) {
  return startsWith(Word, "-Wl,") || isSame(Word, "-Xlinker") || isSame(Word, "-z");
}

// Parts of a text, each as a word.
inline void split(const char *Text, char At, List<const char *> &Parts) {
  for (const char *End; *Text; Text = *End ? End + 1 : End) {
    End = strchrnul(Text, At);
    if (End != Text)
      Parts.add(strndup(Text, End - Text));
  }
}

// A word as zig's driver takes it; `for_zig` in mlgo/host/command_line.py does the same.
inline void translate(const char *Word, List<const char *> &Found) {
  for (const auto &One : options::ForZig)
    if (startsWith(Word, One.Begins)) {
      List<char> Text;
      Text.add(One.Instead, strlen(One.Instead));
      const bool IsMachine = isSame(One.Begins, "-march="); // zig has _ in names of machines
      for (const char *Char = Word + strlen(One.Begins); *Char; ++Char)
        Text.add(IsMachine && *Char == '-' ? '_' : *Char);
      Text.add('\0');
      return split(Text.data(), ' ', Found);
    }
  Found.add(Word);
}

// All words translated; each option of the linker stands behind a word -Xlinker of its own.
inline void translateAll(char const *const *Words, size_t NumWords, List<const char *> &Found) {
  for (size_t I = 0; I < NumWords; ++I) {
    const char *Word = Words[I];
    List<const char *> Parts;
    if (startsWith(Word, "-Wp,") || startsWith(Word, "-Wl,"))
      split(Word + strlen("-Wp,"), ',', Parts);
    else if (isSame(Word, "-z") && I + 1 < NumWords)
      Parts.add(Words + I++, 2);
    else if (isAmong(Word, options::WithValue) && I + 1 < NumWords)
      Found.add(Words + I++, 2);
    else
      translate(Word, Found);
    for (const char *Part : Parts) {
      if (!startsWith(Word, "-Wp,"))
        Found.add("-Xlinker");
      Found.add(Part);
      if (startsWith(Word, "-Wp,") && (isSame(Part, "-MD") || isSame(Part, "-MMD"))) // its file is the next part
        Found.add("-MF");
    }
  }
}

inline void remove(List<const char *> &Words, size_t First, size_t Count) {
  List<const char *> Rest;
  Rest.add(Words.begin() + First + Count, Words.size() - First - Count);
  Words.shrink(First);
  Words.add(Rest.data(), Rest.size());
}

inline const char *linkerWord(List<const char *> &Words, size_t I) {
  return I + 1 < Words.size() && isSame(Words[I], "-Xlinker") ? Words[I + 1] : nullptr;
}

inline bool hasValueBehind(const char *Part) {
  return !strchr(Part, '=') && isAmong(Part + strspn(Part, "-"), options::LinkerWithValue);
}

// A map of the link: zig's driver knows how to print one. What it prints goes to the file.
inline void printMap(List<const char *> &Words) {
  for (size_t I = 0; I < Words.size(); ++I) {
    const char *Part = linkerWord(Words, I), *Name = Part && *Part == '-' ? Part + strspn(Part, "-") : "";
    const bool IsJoined = startsWith(Name, "Map=");
    const char *Path = IsJoined ? Name + strlen("Map=") : isSame(Name, "Map") ? linkerWord(Words, I + 2) : nullptr;
    const int File = Path ? open(Path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666) : -1;
    if (File >= 0) {
      Words[I + 1] = "--print-map";
      dup2(File, 1);
      close(File);
      if (!IsJoined)
        remove(Words, I + 2, 2);
    }
  }
}

// What zig says of a link, which it does not do.
inline void ask(List<const char *> &Words, List<char> &Said) {
  List<const char *> Asking;
  Asking.add(Words.data(), Words.size());
  Asking.add("-###");
  Asking.add(nullptr);
  const Ended Run = runQuietly(Asking.data());
  char Bytes[1 << 14];
  Said.clear();
  for (ssize_t Count, At = 0; (Count = pread(Run.Errors, Bytes, sizeof Bytes, At)) > 0; At += Count)
    Said.add(Bytes, Count);
  Said.add('\0');
  if (Run.Errors >= 0)
    close(Run.Errors);
}

// The option of the linker of which zig says that its driver does not take it; null if it takes them all.
inline const char *refused(List<char> &Said) {
  const char *const Starts[] = {"unsupported linker arg: ", "unsupported linker extension flag: -z "};
  for (const char *Start : Starts)
    if (const char *Found = strstr(Said.data(), Start)) {
      Found += strlen(Start);
      return strndup(Found, strcspn(Found, "\n"));
    }
  return nullptr;
}

// Takes an option of the linker out, with its value; returns whether it was there.
inline bool takeOut(List<const char *> &Words, const char *Name, List<const char *> &Left) {
  for (size_t I = 0; I < Words.size(); ++I) {
    const char *Part = linkerWord(Words, I), *Value = Part ? linkerWord(Words, I + 2) : nullptr;
    if (!Part)
      continue;
    const bool IsKeyword = Value && isSame(Part, "-z") && isSame(Value, Name);
    const bool IsJoined = startsWith(Part, Name) && Part[strlen(Name)] == '=';
    if (IsKeyword || IsJoined || isSame(Part, Name) || (startsWith(Part, "-z") && isSame(Part + 2, Name))) {
      const bool HasValue = IsKeyword || (Value && hasValueBehind(Part));
      Left.add(Part);
      if (HasValue)
        Left.add(Value);
      remove(Words, I, HasValue ? 4 : 2);
      return true;
    }
    if (Value && hasValueBehind(Part))
      I += 2;
    ++I;
  }
  return false;
}

// The link itself, by the linker that zig's driver calls, which takes all options. Returns whether zig has said how: it
// quotes nothing.
inline bool linkDirectly(List<const char *> &Words, List<char> &Said, List<const char *> &Left) {
  const char *const Name = "ld.lld ", *Line = strstr(Said.data(), Name);
  const char *const Cache = getenv("ZIG_LOCAL_CACHE_DIR"), *const Home = getenv("HOME");
  bool HasSpace = (Cache && strchr(Cache, ' ')) || (Home && strchr(Home, ' '));
  for (const char *Word : Words)
    HasSpace |= strchr(Word, ' ') != nullptr;
  if (!Line || HasSpace)
    return false;
  Words.shrink(1);
  split(strndup(Line, strcspn(Line, "\n")), ' ', Words);
  Words.add(Left.data(), Left.size());
  return true;
}

} // namespace zig

// Makes a command of clang one of zig's driver. Options of the linker that it does not take go to the linker itself, or,
// where the command has sources, are left out with a word.
inline void forZig(List<const char *> &Words, const Command &Given) {
  static bool HasWarned = false;
  List<const char *> Found, Left, Expanded;
  int NumFiles = 0;
  const bool IsWhole = command::expand(const_cast<char *const *>(Words.data()), Words.size(), Expanded, NumFiles);
  zig::translateAll(Expanded.data(), Expanded.size(), Found);
  size_t NumBytes = 0;
  for (const char *Word : Found)
    NumBytes += strlen(Word) + sizeof Word;
  // Words of response files stay in them, unless zig takes others in their place, and they are no more than a command has.
  if (!IsWhole || (NumFiles && (NumBytes > 1 << 20 || Found.isSame(Expanded))))
    return;
  Words.clear();
  bool NamesLinker = false;
  for (const char *Word : Found)
    NamesLinker |= zig::isOfLinker(Word);
  if (NamesLinker && Given.HasCode && !Given.MakesObject) {
    const bool HasSources = Given.NumSources || Given.HasHeader || Given.ReadsInput;
    if (HasSources)
      zig::printMap(Found);
    List<char> Said;
    const char *Name;
    do {
      zig::ask(Found, Said);
      Name = zig::refused(Said);
    } while (Name && zig::takeOut(Found, Name, Left));
    if (!Name && Left.size() && (HasSources || !zig::linkDirectly(Found, Said, Left))) {
      for (const char *Word : Left)
        if (!HasWarned)
          fprintf(stderr, "mlgo cc: warning: zig does not take %s for the linker here; left out\n", Word);
      HasWarned = true;
    }
  }
  Words.add(Found.data(), Found.size());
}

#endif
