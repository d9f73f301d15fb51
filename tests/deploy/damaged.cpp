// Feeds damaged streams to a conversation, in pieces, and damaged response files to the reader of commands.
// damaged SEED FOLDER; built with sanitizers, it ends with status 1 when a whole stream is not answered.
#include "command.h"
#include "conversation.h"
#include "two_features.h"

#include <fcntl.h>

namespace {

uint64_t State;

unsigned draw(unsigned Below) {
  State ^= State << 13;
  State ^= State >> 7;
  State ^= State << 17;
  return (State >> 11) % Below;
}

const char Start[] = "{\"features\":[{\"name\":\"a\",\"type\":\"int64_t\",\"port\":0,\"shape\":[1]},"
                     "{\"name\":\"c\",\"type\":\"float\",\"port\":0,\"shape\":[2,3]},"
                     "{\"name\":\"b\",\"type\":\"int64_t\",\"port\":0,\"shape\":[1]}],"
                     "\"advice\":{\"name\":\"d\",\"type\":\"int64_t\",\"port\":0,\"shape\":[1]}}\n{\"context\":\"x\"}\n";

void writeStream(List<char> &Stream) {
  Stream.add(Start, strlen(Start));
  for (int Question = 0; Question < 3; ++Question) {
    char Line[64];
    Stream.add(Line, snprintf(Line, sizeof Line, "{\"observation\":%d}\n", Question));
    for (int Byte = 0; Byte < 40; ++Byte)
      Stream.add(static_cast<char>(draw(256)));
    Stream.add('\n');
  }
}

void damage(List<char> &Stream) {
  const size_t Place = draw(Stream.size() - 1);
  const unsigned Kind = draw(3);
  if (Kind == 0)
    Stream[Place] = static_cast<char>(draw(256));
  else if (Kind == 1)
    Stream[Place] = "0123456789{}[]\":,\n"[draw(18)];
  else
    memmove(&Stream[Place], &Stream[Place + 1], Stream.size() - Place - 1);
}

bool isAnswered(List<char> &Stream, int Answers) {
  const size_t Sizes[] = {8, 8};
  Conversation<Model> Talk("fetch_d", 8, Sizes, 2);
  const char *Wrong = nullptr;
  for (size_t At = 0, Count; At < Stream.size() && !Wrong; At += Count) {
    Count = 1 + draw(50);
    Count = Count < Stream.size() - At ? Count : Stream.size() - At;
    char *Piece = static_cast<char *>(malloc(Count)); // so that reading beyond it is seen
    memcpy(Piece, &Stream[At], Count);
    Wrong = Talk.feed(Piece, Count, Answers);
    free(Piece);
  }
  return !Wrong && Talk.NumQuestions == 3;
}

} // namespace

int main(int NumWords, char **Words) {
  if (NumWords != 3)
    return 2;
  State = 2654435761u * atol(Words[1]) + 1;
  const int Answers = open("/dev/null", O_WRONLY);
  for (int Round = 0; Round < 20000; ++Round) {
    List<char> Stream;
    writeStream(Stream);
    const unsigned NumFaults = draw(4);
    for (unsigned Fault = 0; Fault < NumFaults; ++Fault)
      damage(Stream);
    if (!isAnswered(Stream, Answers) && !NumFaults)
      return 1;
  }
  char Path[4096];
  snprintf(Path, sizeof Path, "@%s/words", Words[2]);
  for (int Round = 0; Round < 2000; ++Round) {
    FILE *File = fopen(Path + 1, "w");
    for (unsigned Left = draw(60); Left; --Left)
      putc(" \\\"'ab-cOz@.x\n"[draw(14)], File);
    fclose(File);
    char X[] = "-x", Dash[] = "-", Source[] = "file.c", *Given[] = {Path, X, Dash, Source, Path};
    readCommand(Given, draw(6), false);
  }
}
