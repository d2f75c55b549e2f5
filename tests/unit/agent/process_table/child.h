#pragma once

// A child process of a test, whose end the test decides.

#include <array>
#include <csignal>
#include <functional>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace ringmaster::agent {

// Runs `body` in a child process and waits until it writes a byte. The destructor kills the child.
class Child {
 public:
  explicit Child(const std::function<void(const std::function<void()>& ready)>& body) {
    std::array<int, 2> ends{};
    EXPECT_EQ(pipe(ends.data()), 0);
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      body([&] { EXPECT_EQ(write(ends[1], "r", 1), 1); });
      _exit(0);
    }
    char byte = 0;
    EXPECT_EQ(read(ends[0], &byte, 1), 1);
    close(ends[0]);
    close(ends[1]);
  }
  ~Child() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  bool Lives() const { return waitpid(pid_, nullptr, WNOHANG) == 0; }
  void Stop() const {
    kill(pid_, SIGSTOP);
    int status = 0;
    waitpid(pid_, &status, WUNTRACED);
    EXPECT_TRUE(WIFSTOPPED(status));
  }

 private:
  pid_t pid_ = -1;
};

}  // namespace ringmaster::agent
