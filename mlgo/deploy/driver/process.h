// A compiler in a process group of its own that does not outlive the driver, and the folder of their channel.
//
// A compiler whose driver is killed would spin for ever at the end of its answers. So a second process, the guard, waits
// for the driver's end: it then kills the compiler's group and removes the folder, unless the driver has said that it
// has done so itself.
#ifndef MLGO_PROCESS_H
#define MLGO_PROCESS_H

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

inline const char *Program = "mlgo cc"; // as messages name it

inline int removeOne(const char *Path, const struct stat *, int, struct FTW *) {
  remove(Path);
  return 0;
}

inline void removeTree(const char *Folder) { nftw(Folder, removeOne, 16, FTW_DEPTH | FTW_PHYS); }

// A temporary folder with the channel: BASE.in for answers, BASE.out for questions.
class Folder {
public:
  char Path[4096] = "", Base[4096 + 16] = "";
  int Answers = -1, Questions = -1;

  // Returns whether it stands. Both ends are opened for reading and writing, so neither side waits for the other, and
  // the compiler may close the channel and open it again.
  bool make() {
    const char *Parent = getenv("TMPDIR");
    snprintf(Path, sizeof Path, "%s/mlgo-cc-XXXXXX", Parent && *Parent ? Parent : "/tmp");
    if (!mkdtemp(Path)) {
      *Path = 0;
      return false;
    }
    snprintf(Base, sizeof Base, "%s/channel", Path);
    Answers = openPipe("in");
    Questions = openPipe("out");
    return Answers >= 0 && Questions >= 0;
  }

  void clear() {
    if (*Path)
      removeTree(Path);
    *Path = 0;
  }

  ~Folder() { clear(); }

private:
  int openPipe(const char *End) const {
    char Name[sizeof Base + 8];
    snprintf(Name, sizeof Name, "%s.%s", Base, End);
    return mkfifo(Name, 0600) == 0 ? open(Name, O_RDWR | O_NONBLOCK | O_CLOEXEC) : -1;
  }
};

// The process that outlives the driver if that is killed.
class Guard {
public:
  int Pipe = -1; // takes the number of the process to kill, then "done"

  bool start(const char *Path) {
    int Ends[2];
    if (pipe2(Ends, O_CLOEXEC) != 0)
      return false;
    Process = fork();
    if (Process == 0) {
      close(Ends[1]);
      wait(Ends[0], Path);
      _exit(0);
    }
    close(Ends[0]);
    Pipe = Ends[1];
    return Process > 0;
  }

  void dismiss() {
    if (Pipe < 0)
      return;
    const pid_t Done = 0;
    (void)!write(Pipe, &Done, sizeof Done);
    close(Pipe);
    Pipe = -1;
    if (Process > 0)
      waitpid(Process, nullptr, 0);
  }

  ~Guard() { dismiss(); }

private:
  static void wait(int Input, const char *Path) {
    setsid(); // a signal to all of a build must not reach it
    const int Nothing = open("/dev/null", O_RDWR);
    for (int Standard = 0; Standard < 3; ++Standard) // whoever reads the driver's output waits for its end
      dup2(Nothing, Standard);
    pid_t Group = 0, Said = 0;
    ssize_t Count;
    while ((Count = read(Input, &Said, sizeof Said)) != 0) {
      if (Count == sizeof Said && Said == 0)
        return;
      if (Count == sizeof Said)
        Group = Said;
      else if (errno != EINTR)
        break;
    }
    if (Group > 1)
      kill(-Group, SIGKILL);
    for (int Try = 0; Try < 100 && access(Path, F_OK) == 0; ++Try) { // what is being killed may still write there
      removeTree(Path);
      usleep(10000);
    }
  }

  pid_t Process = -1;
};

// Becomes a command, which is looked up in PATH if its name is no path.
[[noreturn]] inline void become(const char *const *Words) {
  execvp(Words[0], const_cast<char *const *>(Words));
  fprintf(stderr, "%s: error: cannot start %s: %s\n", Program, Words[0], strerror(errno));
  _exit(127);
}

// Starts a command in a group of its own, its stderr a pipe, and tells the guard; returns its process, or -1.
inline pid_t startGroup(const char *const *Words, int GuardPipe, int Errors, const sigset_t &Mask) {
  const pid_t Process = fork();
  if (Process == 0) {
    const pid_t Own = getpid();
    setpgid(0, 0);
    if (write(GuardPipe, &Own, sizeof Own) != sizeof Own || dup2(Errors, 2) < 0)
      _exit(127);
    sigprocmask(SIG_SETMASK, &Mask, nullptr);
    signal(SIGTTOU, SIG_IGN); // its group is not the terminal's; `stty tostop` would stop it at its first warning
    execvp(Words[0], const_cast<char *const *>(Words));
    _exit(127);
  }
  if (Process > 0)
    setpgid(Process, Process); // whoever of both comes first
  return Process;
}

// Runs a command in this process's own group, its stderr in a file without a name; returns its status and the file.
struct Ended {
  int Status, Errors;
};

inline Ended runQuietly(const char *const *Words) {
  Ended Found = {-1, memfd_create("errors", MFD_CLOEXEC)};
  const pid_t Process = Found.Errors < 0 ? -1 : fork();
  if (Process == 0) {
    dup2(Found.Errors, 2);
    execvp(Words[0], const_cast<char *const *>(Words));
    _exit(127);
  }
  while (Process > 0 && waitpid(Process, &Found.Status, 0) < 0 && errno == EINTR)
    ;
  return Found;
}

inline void copyToErrors(int File) {
  char Bytes[1 << 14];
  lseek(File, 0, SEEK_SET);
  for (ssize_t Count; (Count = read(File, Bytes, sizeof Bytes)) > 0;)
    (void)!write(2, Bytes, Count);
}

// Runs a command in this process's own group, which ends with it; returns its status as a shell has it.
inline int runWithin(const char *const *Words, int Errors = 2) {
  int Status = 127 << 8;
  const pid_t Own = getpid(), Process = fork();
  if (Process == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() == Own && dup2(Errors, 2) == 2)
      become(Words);
    _exit(127);
  }
  while (Process > 0 && waitpid(Process, &Status, 0) < 0 && errno == EINTR)
    ;
  return WIFEXITED(Status) ? WEXITSTATUS(Status) : 128 + WTERMSIG(Status);
}

// Writes all bytes; returns whether that went well.
inline bool writeAll(int File, const char *Bytes, size_t Count) {
  for (ssize_t Done; Count; Bytes += Done, Count -= Done)
    if ((Done = write(File, Bytes, Count)) < 0 && errno != EINTR && errno != EAGAIN)
      return false;
    else if (Done < 0)
      Done = 0;
  return true;
}

inline int openProcess(pid_t Process) { return static_cast<int>(syscall(SYS_pidfd_open, Process, 0)); }

#endif
