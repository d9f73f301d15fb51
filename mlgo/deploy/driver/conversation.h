// LLVM's questions and a model's answers.
//
// Format (llvm/lib/Analysis/TrainingLogger.cpp, InteractiveModelRunner.cpp, TensorSpec.cpp): a line of JSON that names
// the features, then for each scope a line {"context":"NAME"}, and for each question a line {"observation":N}, the
// features' raw tensors and a line feed. The answer is one raw tensor.
#ifndef MLGO_CONVERSATION_H
#define MLGO_CONVERSATION_H

#include "text.h"

#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

// Model has the members that LLVM's ReleaseModeModelRunner asks for.
template <typename Model> class Conversation {
public:
  // A compile with more questions does not end: registers that evict each other in a circle ask for ever.
  static constexpr long MaxQuestions = 1000000;

  // Result: name that the model has for its answer. InputBytes: size of each of its inputs, by index.
  Conversation(const char *Result, size_t AnswerBytes, const size_t *InputBytes, size_t NumInputs)
      : AnswerBytes(AnswerBytes), InputBytes(InputBytes), NumInputs(NumInputs), ResultName{Result, strlen(Result)} {
    Answer = Asked.result_data(Asked.LookupResultIndex(ResultName));
  }

  bool HasBegun = false;
  long NumQuestions = 0, NumChanges = 0; // questions, and those whose answer was not 0

  // Takes what the compiler has written and answers on a descriptor. Returns what is wrong, or null.
  const char *feed(const char *Bytes, size_t Count, int Answers) {
    HasBegun = true;
    Buffer.add(Bytes, Count);
    size_t Start = 0;
    const char *Wrong = nullptr;
    while (!Wrong) {
      const char *Rest = Buffer.data() + Start;
      const size_t Left = Buffer.size() - Start;
      const char *LineEnd = static_cast<const char *>(memchr(Rest, '\n', Left));
      if (!LineEnd) {
        if (Left > MaxLine)
          Wrong = "it sent a line without an end";
        break;
      }
      const size_t Line = LineEnd - Rest + 1;
      if (begins(Rest, "{\"features\":")) {
        Wrong = readHeader(Rest, LineEnd);
      } else if (begins(Rest, "{\"observation\":") && !Inputs.size()) {
        Wrong = "it asked before it named its features";
      } else if (begins(Rest, "{\"observation\":")) {
        if (Left < Line + Width + 1)
          break;
        if (Rest[Line + Width] != '\n')
          Wrong = "its features are longer than it said";
        else
          Wrong = answer(Rest + Line, Answers);
        Start += Width + 1;
      } else if (!begins(Rest, "{\"context\":")) {
        Wrong = "it sent what LLVM 17 to 22 do not send";
      }
      Start += Line;
    }
    if (!Wrong)
      Buffer.dropFirst(Start);
    return Wrong;
  }

private:
  static constexpr size_t MaxLine = 1 << 20, MaxWidth = 1 << 24;

  struct Text {
    const char *Start;
    size_t Length;
    const char *data() const { return Start; }
    size_t size() const { return Length; }
  };
  struct Input {
    size_t Offset, Bytes;
    void *Place;
  };

  static bool begins(const char *Line, const char *Beginning) { return startsWith(Line, Beginning); }

  const char *answer(const char *Tensors, int Answers) {
    for (const Input &One : Inputs)
      memcpy(One.Place, Tensors + One.Offset, One.Bytes);
    Asked.Run();
    bool IsChange = false;
    for (size_t I = 0; I < AnswerBytes; ++I)
      IsChange |= static_cast<const char *>(Answer)[I] != 0;
    NumChanges += IsChange;
    if (++NumQuestions > MaxQuestions)
      return "it asks too many questions";
    if (write(Answers, Answer, AnswerBytes) != static_cast<ssize_t>(AnswerBytes))
      return "it does not read the answers";
    return nullptr;
  }

  // {"features":[SPEC,...],"advice":SPEC} with SPEC {"name":"N","type":"T","port":0,"shape":[D,...]}
  const char *readHeader(const char *Line, const char *End) {
    const char *const Bad = "it names its features in a way that LLVM 17 to 22 do not";
    Inputs.clear();
    Width = 0;
    const char *At = Line; // never beyond the line: nothing that is skipped or read holds a line feed
    if (!skip(At, "{\"features\":["))
      return Bad;
    for (;;) {
      Text Name;
      size_t Bytes;
      if (!readSpec(At, End, Name, Bytes) || Width + Bytes > MaxWidth)
        return Bad;
      if (const char *Wrong = bind(Name, Bytes))
        return Wrong;
      Width += Bytes;
      if (*At != ',')
        break;
      ++At;
    }
    Text Advice;
    size_t Bytes;
    if (!startsWith(At, "],\"advice\":") || !readSpec(At += strlen("],\"advice\":"), End, Advice, Bytes))
      return Bad;
    const size_t Skip = strlen("fetch_");
    if (Advice.Length + Skip != ResultName.Length || memcmp(ResultName.Start + Skip, Advice.Start, Advice.Length) != 0 ||
        Bytes != AnswerBytes)
      return "it wants another kind of answer than the policy gives";
    return Inputs.size() == NumInputs ? nullptr : "it lacks a feature that the policy looks at";
  }

  const char *bind(const Text &Name, size_t Bytes) {
    char Feed[256];
    const int Length = snprintf(Feed, sizeof Feed, "feed_%.*s", static_cast<int>(Name.Length), Name.Start);
    const int Index = Asked.LookupArgIndex(Text{Feed, static_cast<size_t>(Length)});
    if (Index < 0)
      return nullptr;
    if (Bytes != InputBytes[Index])
      return "a feature has another size than the policy looks at";
    Inputs.add(Input{Width, Bytes, Asked.arg_data(Index)});
    return nullptr;
  }

  static bool readSpec(const char *&At, const char *End, Text &Name, size_t &Bytes) {
    Text Type;
    if (!skip(At, "{\"name\":\"") || !readText(At, End, Name) || !skip(At, ",\"type\":\"") || !readText(At, End, Type) ||
        !skip(At, ",\"port\":"))
      return false;
    readNumber(At);
    if (!skip(At, ",\"shape\":["))
      return false;
    Bytes = bytesOf(Type);
    do {
      const size_t Extent = readNumber(At);
      if (Extent < 1 || Extent > MaxWidth || (Bytes *= Extent) > MaxWidth)
        return false;
    } while (skip(At, ","));
    return Bytes && skip(At, "]}");
  }

  static size_t bytesOf(const Text &Type) {
    const struct {
      const char *Name;
      size_t Bytes;
    } Known[] = {{"float", 4},   {"double", 8},   {"int8_t", 1},   {"uint8_t", 1},  {"int16_t", 2},
                 {"uint16_t", 2}, {"int32_t", 4}, {"uint32_t", 4}, {"int64_t", 8}, {"uint64_t", 8}};
    for (const auto &One : Known)
      if (strlen(One.Name) == Type.Length && memcmp(One.Name, Type.Start, Type.Length) == 0)
        return One.Bytes;
    return 0;
  }

  static bool skip(const char *&At, const char *Expected) {
    if (!startsWith(At, Expected))
      return false;
    At += strlen(Expected);
    return true;
  }

  // Digits that stand here; 0 without any. strtol would read on beyond the line.
  static size_t readNumber(const char *&At) {
    size_t Number = 0;
    for (; *At >= '0' && *At <= '9'; ++At)
      Number = Number > MaxWidth ? Number : 10 * Number + (*At - '0');
    return Number;
  }

  static bool readText(const char *&At, const char *End, Text &Found) {
    const char *Quote = static_cast<const char *>(memchr(At, '"', End - At));
    if (!Quote)
      return false;
    Found = {At, static_cast<size_t>(Quote - At)};
    At = Quote + 1;
    return true;
  }

  Model Asked;
  const size_t AnswerBytes, *const InputBytes, NumInputs;
  const Text ResultName;
  const void *Answer;
  List<char> Buffer;
  List<Input> Inputs;
  size_t Width = 0;
};

#endif
