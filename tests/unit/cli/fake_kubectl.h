#pragma once

// A folder with a program `kubectl` that prints the answers that a test sets. Runs
// kubectl-trainingjob with this folder first in PATH.

#include <chrono>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <pty.h>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "common/process/captured_process.h"
#include "tests/paths.h"

namespace ringmaster::cli {

class FakeKubectl {
 public:
  struct Ran {
    int code = -1;
    std::string out{};
    std::string err{};
  };

  FakeKubectl() {
    std::string name = "/tmp/ringmaster-cli-XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~FakeKubectl() {
    for (const auto& [name, gate] : gates_) close(gate);
    std::filesystem::remove_all(folder_);
  }

  const std::filesystem::path& folder() const { return folder_; }

  // `pattern` is a pattern of sh's `case`, matched against all arguments as one text. The first
  // match is used. sh then runs `body`.
  void On(const std::string& pattern, const std::string& body) {
    arms_ += "  " + pattern + ") " + body + ";;\n";
  }
  void Prints(const std::string& pattern, const std::string& text) {
    const std::string file = folder_ / std::to_string(++files_);
    std::ofstream(file) << text;
    On(pattern, "cat " + file);
  }
  void Gets(const std::string& pattern, const nlohmann::json& object) {
    Prints(pattern, object.dump(4));
  }
  void Refuses(const std::string& pattern, const std::string& error) {
    On(pattern, "echo '" + error + "' >&2; exit 1");
  }

  // Runs kubectl-trainingjob on a terminal and returns the output.
  std::string RunOnTerminal(const std::vector<std::string>& arguments) {
    WriteProgram();
    std::string program = FromBuild(RINGMASTER_KUBECTL_TRAININGJOB);
    int terminal = -1;
    const pid_t pid = forkpty(&terminal, nullptr, nullptr, nullptr);
    if (pid == 0) {
      setenv("PATH", (folder_.string() + ":/usr/bin:/bin").c_str(), 1);
      std::vector<char*> argv{program.data()};
      for (const std::string& argument : arguments)
        argv.push_back(const_cast<char*>(argument.c_str()));
      argv.push_back(nullptr);
      execv(argv[0], argv.data());
      _exit(127);
    }
    std::string printed;
    char buffer[4096];
    for (ssize_t bytes; (bytes = read(terminal, buffer, sizeof buffer)) > 0;) {
      printed.append(buffer, static_cast<std::size_t>(bytes));
    }
    close(terminal);
    int status = 0;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    return printed;
  }

  // Runs kubectl-trainingjob to its end. `on_output` is called with all output so far.
  Ran Run(const std::vector<std::string>& arguments,
          const std::function<void(const std::string&)>& on_output = {},
          const std::string& program = FromBuild(RINGMASTER_KUBECTL_TRAININGJOB)) {
    WriteProgram();
    boost::asio::io_context io;
    ChildReaper reaper(io);
    Ran ran;
    ProcessSpec spec{.argv = {program},
                     .environment = {"PATH=" + folder_.string() + ":/usr/bin:/bin"}};
    spec.argv.insert(spec.argv.end(), arguments.begin(), arguments.end());
    auto started = CapturedProcess::Start(reaper, spec,
                                          {.on_output =
                                               [&](bool is_stderr, std::string_view data) {
                                                 (is_stderr ? ran.err : ran.out) += data;
                                                 if (!is_stderr && on_output) on_output(ran.out);
                                               },
                                           .on_end =
                                               [&](ProcessEnd end, const LastLines& /*lines*/) {
                                                 ran.code = end.exit_code;
                                                 io.stop();
                                               }});
    EXPECT_TRUE(started.ok());
    io.run_for(std::chrono::seconds(120));
    return ran;
  }

  // Creates a named pipe. sh blocks when it reads from the pipe, until the test writes a line.
  std::string Gate(const std::string& name) {
    const std::string path = folder_ / name;
    if (mkfifo(path.c_str(), 0600) == 0) gates_[name] = open(path.c_str(), O_RDWR | O_CLOEXEC);
    return "read line < " + path;
  }
  void Pass(const std::string& name) { EXPECT_EQ(write(gates_.at(name), "x\n", 2), 2); }

  // Returns the arguments of all calls, one line per call.
  std::string Calls() const {
    std::ifstream file(folder_ / "calls");
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  void WriteProgram() const {
    const std::filesystem::path program = folder_ / "kubectl";
    std::ofstream(program)
        << "#!/bin/sh\necho \"$*\" >> " << (folder_ / "calls").string() << "\ncase \"$*\" in\n"
        << arms_ << "  *) echo \"error: the test has no answer to $*\" >&2; exit 97;;\nesac\n";
    std::filesystem::permissions(program, std::filesystem::perms(0755));
  }

  std::filesystem::path folder_;
  std::string arms_;
  std::map<std::string, int> gates_;  // file descriptors
  int files_ = 0;
};

}  // namespace ringmaster::cli
