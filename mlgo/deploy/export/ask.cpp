// Asks a model as LLVM's release mode does: ask QUESTIONS ANSWERS BYTES_OF_AN_ANSWER REPEATS.
// QUESTIONS holds the numbers of features and of rows, then for each feature the sizes of its name and of its value in a
// row, the name, and all rows. ANSWERS gets nanoseconds per question as a double, then the answers.
#include HEADER

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

namespace {

struct Text {
  const char *Start;
  unsigned long Length;
  const char *data() const { return Start; }
  unsigned long size() const { return Length; }
  template <class String> operator String() const { return String(Start, Length); } // a model may want one of C++
};

struct Column {
  void *Place;
  int64_t Bytes;
  char *Rows;
};

int64_t readNumber(FILE *File) {
  int64_t Number = 0;
  if (fread(&Number, sizeof Number, 1, File) != 1)
    exit(2);
  return Number;
}

char *readBytes(FILE *File, int64_t Size) {
  char *Bytes = static_cast<char *>(malloc(Size + 1));
  if (!Bytes || fread(Bytes, 1, Size, File) != static_cast<size_t>(Size))
    exit(2);
  return Bytes;
}

} // namespace

int main(int Count, char **Words) {
  if (Count != 5)
    return 2;
  static llvm::MODEL Model;
  FILE *File = fopen(Words[1], "rb");
  if (!File)
    return 2;
  const int64_t NumFeatures = readNumber(File), NumRows = readNumber(File);
  Column *Columns = static_cast<Column *>(malloc(NumFeatures * sizeof(Column) + 1));
  for (int64_t I = 0; I < NumFeatures; ++I) {
    const int64_t NameBytes = readNumber(File), Bytes = readNumber(File);
    const Text Name = {readBytes(File, NameBytes), static_cast<unsigned long>(NameBytes)};
    const int Index = Model.LookupArgIndex(Name);
    Columns[I] = {Index < 0 ? malloc(Bytes) : Model.arg_data(Index), Bytes, readBytes(File, Bytes * NumRows)};
  }
  fclose(File);
  const Text Result = {RESULT, sizeof RESULT - 1};
  const int Index = Model.LookupResultIndex(Result);
  const long AnswerBytes = atol(Words[3]), Repeats = atol(Words[4]);
  if (Index < 0)
    return 3;
  char *Answers = static_cast<char *>(malloc(NumRows * AnswerBytes + 1));
  timespec Begin, End;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &Begin);
  for (long Again = 0; Again < Repeats; ++Again)
    for (int64_t Row = 0; Row < NumRows; ++Row) {
      for (int64_t I = 0; I < NumFeatures; ++I)
        memcpy(Columns[I].Place, Columns[I].Rows + Row * Columns[I].Bytes, Columns[I].Bytes);
      Model.Run();
      memcpy(Answers + Row * AnswerBytes, Model.result_data(Index), AnswerBytes);
    }
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &End);
  const double Nanoseconds = (End.tv_sec - Begin.tv_sec) * 1e9 + (End.tv_nsec - Begin.tv_nsec);
  const double Each = NumRows ? Nanoseconds / (Repeats * NumRows) : 0.0;
  FILE *Output = fopen(Words[2], "wb");
  if (!Output || fwrite(&Each, sizeof Each, 1, Output) != 1 ||
      fwrite(Answers, AnswerBytes, NumRows, Output) != static_cast<size_t>(NumRows))
    return 4;
  return fclose(Output) ? 4 : 0;
}
