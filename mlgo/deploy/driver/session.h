// One command under advice: it is started with a channel, and its questions are answered until it ends.
#ifndef MLGO_SESSION_H
#define MLGO_SESSION_H

#include "conversation.h"
#include "process.h"
#include "settings.h"
#include "text.h"

#include <poll.h>
#include <sys/signalfd.h>

struct Outcome {
  int Status = 0;               // of the compiler, as waitpid gives it
  int Signal = 0;               // that the driver got meanwhile
  const char *Wrong = nullptr;  // what went wrong with the channel
  long NumQuestions = 0, NumChanges = 0;
};

// What a compiler writes to stderr: kept until it ends, as it may run again, or until a text stands there.
struct Said {
  List<char> Kept;
  const char *Until = nullptr;
  bool IsPassed = false;

  void add(const char *Bytes, size_t Count) {
    if (IsPassed) {
      writeAll(2, Bytes, Count);
      return;
    }
    Kept.add(Bytes, Count);
    if (Until && memmem(Kept.data(), Kept.size(), Until, strlen(Until)))
      pass();
  }

  void pass() {
    writeAll(2, Kept.data(), Kept.size());
    Kept.clear();
    IsPassed = true;
  }
};

// Answers until the compiler ends. It has no deadline of its own: how long a compile may take, its build decides.
inline Outcome talk(Conversation<Model> &Talk, const Folder &Place, pid_t Process, int Signals, int Errors, Said &Text) {
  Outcome Found;
  pollfd Watched[] = {{openProcess(Process), POLLIN, 0},
                      {Place.Questions, POLLIN, 0},
                      {Signals, POLLIN, 0},
                      {Errors, POLLIN, 0}};
  char Bytes[1 << 16];
  const auto listen = [&] {
    const ssize_t Count = read(Errors, Bytes, sizeof Bytes);
    if (Count > 0)
      Text.add(Bytes, Count);
    if (Count == 0) // it has closed its end
      Watched[3].fd = -1;
    return Count > 0;
  };
  const auto receive = [&] {
    const ssize_t Count = read(Place.Questions, Bytes, sizeof Bytes);
    if (Count > 0 && !Found.Wrong)
      Found.Wrong = Talk.feed(Bytes, Count, Place.Answers);
    if (Found.Wrong)
      kill(-Process, SIGKILL);
    return Count > 0;
  };
  if (Watched[0].fd < 0) {
    Found.Wrong = "the compiler cannot be watched";
    kill(-Process, SIGKILL);
  }
  while (Watched[0].fd >= 0 && !(Watched[0].revents & POLLIN)) {
    if (poll(Watched, 4, -1) < 0 && errno != EINTR)
      break;
    if (Watched[1].revents & POLLIN)
      receive();
    if (Watched[3].revents)
      listen();
    if (Watched[2].revents & POLLIN) {
      signalfd_siginfo Info;
      if (read(Signals, &Info, sizeof Info) == sizeof Info)
        kill(-Process, Found.Signal = static_cast<int>(Info.ssi_signo));
      kill(-Process, SIGCONT); // whatever has stopped it
    }
  }
  while (!Found.Wrong && receive()) // what it wrote before it ended
    ;
  kill(-Process, SIGKILL); // what it left running, while its number cannot be another's
  waitpid(Process, &Found.Status, 0);
  while (listen())
    ;
  if (Watched[0].fd >= 0)
    close(Watched[0].fd);
  return Found;
}

// Runs a command whose words name the channel, and removes the channel. A signal that ends the driver ends both.
inline Outcome advise(const List<const char *> &Words, Folder &Place, Said &Text) {
  sigset_t Caught, Before;
  sigemptyset(&Caught);
  const int Deadly[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
  for (const int Signal : Deadly) {
    struct sigaction Now;
    if (sigaction(Signal, nullptr, &Now) == 0 && Now.sa_handler != SIG_IGN) // as under nohup
      sigaddset(&Caught, Signal);
  }
  sigprocmask(SIG_BLOCK, &Caught, &Before);
  const int Signals = signalfd(-1, &Caught, SFD_CLOEXEC);
  Guard Guarding;
  int Errors[2] = {-1, -1};
  const bool Ready = Signals >= 0 && pipe2(Errors, O_CLOEXEC) == 0 && fcntl(Errors[0], F_SETFL, O_NONBLOCK) == 0;
  const pid_t Process =
      Ready && Guarding.start(Place.Path) ? startGroup(Words.data(), Guarding.Pipe, Errors[1], Before) : -1;
  close(Errors[1]);
  Outcome Found;
  Conversation<Model> Talk(settings::Result, settings::AnswerBytes, settings::InputBytes, settings::NumInputs);
  if (Process < 0)
    Found.Wrong = "no process can be started";
  else
    Found = talk(Talk, Place, Process, Signals, Errors[0], Text);
  Place.clear();
  Guarding.dismiss();
  sigprocmask(SIG_SETMASK, &Before, nullptr);
  if (Found.Signal) { // end as a compiler would
    Text.pass();
    signal(Found.Signal, SIG_DFL);
    raise(Found.Signal);
  }
  if (!Found.Wrong && !WIFEXITED(Found.Status))
    Found.Wrong = "the compiler crashed while it was advised";
  else if (!Found.Wrong && WEXITSTATUS(Found.Status) != 0)
    Found.Wrong = "the compiler failed while it was advised";
  Found.NumQuestions = Talk.NumQuestions;
  Found.NumChanges = Talk.NumChanges;
  return Found;
}

#endif
