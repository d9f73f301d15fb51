// The parsers of the driver of `mlgo cc` under libFuzzer: conversations with a compiler, command lines, response files.
// The first byte says which. In a command line a line feed ends a word, and byte 1 stands for the response file's name.
#include <stdlib.h>
#include <string.h>

// What the driver's words are copied to lives as long as its short process; here it is given back after each input.
static char *duplicate(const char *Text);
#define strdup duplicate
#include "command.h"
#include "conversation.h"
#include "../deploy/two_features.h"

#include <fcntl.h>
#include <sys/mman.h>

static List<char *> Copies;

static char *duplicate(const char *Text) {
  const size_t Size = strlen(Text) + 1;
  Copies.add(static_cast<char *>(memcpy(malloc(Size), Text, Size)));
  return Copies[Copies.size() - 1];
}

namespace {

void converse(const uint8_t *Data, size_t Size) {
  static const int Answers = open("/dev/null", O_WRONLY);
  static const size_t Sizes[] = {8, 8};
  Conversation<Model> Talk("fetch_d", 8, Sizes, 2);
  const size_t Step = Size ? 1 + Data[0] % 64 : 1;
  for (size_t At = 0; At < Size; At += Step) {
    const size_t Count = Step < Size - At ? Step : Size - At;
    char *Piece = static_cast<char *>(malloc(Count)); // so that reading beyond it is seen
    memcpy(Piece, Data + At, Count);
    const char *Wrong = Talk.feed(Piece, Count, Answers);
    free(Piece);
    if (Wrong)
      return;
  }
}

void readCommandLine(const uint8_t *Data, size_t Size) {
  static const int File = memfd_create("words", 0);
  char Name[64];
  snprintf(Name, sizeof Name, "/proc/self/fd/%d", File);
  List<char> Text;
  for (size_t I = 0; I < Size; ++I) {
    if (Data[I] == 1)
      Text.add(Name, strlen(Name));
    else
      Text.add(static_cast<char>(Data[I]));
  }
  if (ftruncate(File, 0) != 0 || pwrite(File, Text.data(), Text.size(), 0) < 0)
    return;
  Text.add('\0');
  List<char *> Words;
  for (char *At = Text.data(); At && Words.size() < 64;) {
    char *End = strchr(At, '\n');
    if (End)
      *End = 0;
    Words.add(At);
    At = End ? End + 1 : nullptr;
  }
  readCommand(Words.data(), Words.size(), Size % 2);
  for (char *Copy : Copies)
    free(Copy);
  Copies.clear();
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *Data, size_t Size) {
  if (Size)
    (Data[0] % 2 ? converse : readCommandLine)(Data + 1, Size - 1);
  return 0;
}
