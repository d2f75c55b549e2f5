#pragma once

// Reads what /proc/<pid> says about a process and its threads, whatever the process's state. The
// parsers accept any input.

#include <cstddef>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace ringmaster::agent {

struct ThreadInfo {
  pid_t id = 0;
  std::string name{};
  char state = '?';       // as ps shows it: R running, S sleeping, D uninterruptible, T stopped
  std::string wchan{};    // where the thread waits in the kernel; empty: not waiting, or unknown
  std::string syscall{};  // number of the current system call; empty: none, or unknown

  // Returns whether the thread cannot run signal handlers in its present state.
  bool CannotRunHandlers() const { return state != 'R' && state != 'S'; }
};

// Returns the state letter in the text of a /proc/<pid>/stat; '?' if there is none.
char StateIn(std::string_view stat);

// Returns the state of the process's first thread.
char StateOf(pid_t process);

// Returns whether SIGKILL is ending or has ended the process, according to the text of its
// /proc/<pid>/stat. The file of a process that ended exists until its parent reaps it.
bool StatShowsKill(std::string_view stat);
bool IsBeingKilled(pid_t process);

// Lists at most `limit` threads, the first thread first. Sets `count` to the number of all threads.
std::vector<ThreadInfo> ThreadsOf(pid_t process, std::size_t limit, std::size_t* count);

// Returns whether the process has a handler for this signal.
bool Handles(pid_t process, int signal);

}  // namespace ringmaster::agent
