// Compiler caches, which keep objects by a compiler's command line and what its preprocessor writes. Neither names the
// policy's content, and the command line of an advised compile names its channel.
#ifndef MLGO_CACHES_H
#define MLGO_CACHES_H

#include "process.h"
#include "settings.h"
#include "text.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

namespace caches {

// Whether ccache or sccache has started this process.
inline bool areAsking() {
  char Link[32], Program[4096];
  snprintf(Link, sizeof Link, "/proc/%d/exe", static_cast<int>(getppid()));
  const ssize_t Length = readlink(Link, Program, sizeof Program - 1);
  if (Length <= 0)
    return false;
  Program[Length] = '\0';
  const char *Slash = strrchr(Program, '/');
  return Slash && (isSame(Slash, "/ccache") || isSame(Slash, "/sccache"));
}

// Takes -- out of a command line from a word on; returns how many words are left.
inline int withoutDashes(char **Words, int First, int NumWords) {
  int Kept = First;
  for (int I = First; I < NumWords; ++I)
    if (!isSame(Words[I], "--"))
      Words[Kept++] = Words[I];
  Words[Kept] = nullptr;
  return Kept;
}

// Runs the preprocessor, and names the policy behind what it writes: as a file that was included, and by its hash.
inline int preprocess(const char *const *Words, const char *Output) {
  if (const int Status = runWithin(Words))
    return Status;
  FILE *const File = Output && !isSame(Output, "-") ? fopen(Output, "a") : stdout;
  if (!File)
    return 1;
  const settings::File &Policy = settings::MadeFrom[0];
  fprintf(File, "\n# 1 \"%s\"\n# 1 \"<policy %llx>\"\n", Policy.Path, Policy.Hash);
  return fclose(File) == 0 ? 0 : 1;
}

inline void append(const char *Variable, char Between, const char *Text, size_t Length, const char *End = "") {
  const char *const Before = getenv(Variable);
  List<char> Value;
  if (Before && *Before) {
    Value.add(Before, strlen(Before));
    Value.add(Between);
  }
  Value.add(Text, Length);
  Value.add(End, strlen(End) + 1);
  setenv(Variable, Value.data(), 1);
}

// Where the compiler itself is behind ccache: the policy counts, and the name of the channel does not.
inline void prepare() {
  for (const char *const *Word = settings::Advice; *Word; ++Word)
    if (strchr(*Word, '@'))
      append("CCACHE_IGNOREOPTIONS", ' ', *Word, strlen(*Word) - 1, "*");
  append("CCACHE_EXTRAFILES", ':', settings::MadeFrom[0].Path, strlen(settings::MadeFrom[0].Path));
}

} // namespace caches

#endif
