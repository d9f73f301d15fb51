// What a user asks the driver for, and what the driver says of a command.
#ifndef MLGO_ASKED_H
#define MLGO_ASKED_H

#include "process.h"
#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

struct Options {
  bool IsCxx = false, IsCommand = false, IsPlain = false, IsWhole = false, IsThin = false, AnyLevel = false;
  bool IsCold = false; // ask in functions alone that a profile calls cold
  const char *Log = nullptr;
  List<const char *> Languages; // in which the policy is asked, if not as it was made
};

inline double now() {
  timespec Time;
  clock_gettime(CLOCK_MONOTONIC, &Time);
  return Time.tv_sec + Time.tv_nsec * 1e-9;
}

inline void warn(const char *Reason) {
  fprintf(stderr, "%s: warning: %s; compiled without the policy\n", Program, Reason);
}

inline void quote(List<char> &Line, const char *Text) {
  Line.add('"');
  for (; *Text; ++Text) {
    char Escaped[8];
    const unsigned char Char = *Text;
    const bool IsOdd = Char < 0x20 || Char == '"' || Char == '\\';
    const int Length = IsOdd ? snprintf(Escaped, sizeof Escaped, "\\u%04x", Char) : 1;
    Line.add(IsOdd ? Escaped : Text, Length);
  }
  Line.add('"');
}

// A line of JSON for each command; written at once, so that those of many compiles do not mix.
inline void log(const Options &Asked, const char *Source, const char *Outcome, const char *Reason, long NumQuestions,
                long NumChanges, double Seconds) {
  if (!Asked.Log)
    return;
  List<char> Line;
  char Numbers[128];
  const auto add = [&](const char *Text) { Line.add(Text, strlen(Text)); };
  add("{\"source\":");
  quote(Line, Source ? Source : "");
  add(",\"outcome\":");
  quote(Line, Outcome);
  add(",\"reason\":");
  quote(Line, Reason);
  snprintf(Numbers, sizeof Numbers, ",\"questions\":%ld,\"not_zero\":%ld,\"seconds\":%.4f}\n", NumQuestions, NumChanges,
           Seconds);
  add(Numbers);
  const int File = open(Asked.Log, O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK | O_CLOEXEC, 0666);
  if (File < 0 || write(File, Line.data(), Line.size()) < 0)
    fprintf(stderr, "%s: warning: cannot write %s: %s\n", Program, Asked.Log, strerror(errno));
  if (File >= 0)
    close(File);
}

#endif
