#include "bench/large_world/limited_process.h"

#include <csignal>
#include <cstdlib>
#include <ctime>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sched.h>
#include <sstream>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ringmaster::bench {
namespace {

constexpr char kRoot[] = "/sys/fs/cgroup";

bool Write(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text << std::flush;
  return file.good();
}

std::string Read(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

LimitedProcess::LimitedProcess(const std::vector<std::string>& arguments,
                               const std::map<std::string, std::string>& environment,
                               const std::string& log) {
  MakeGroups();
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  std::vector<std::string> variables;
  for (const auto& [name, value] : environment) variables.push_back(name + "=" + value);
  std::vector<char*> envp;
  for (std::string& variable : variables) envp.push_back(variable.data());
  envp.push_back(nullptr);
  process_ = fork();
  if (process_ != 0) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  JoinGroups(getpid());
  if (groups_.empty()) {
    cpu_set_t first;
    CPU_ZERO(&first);
    CPU_SET(0, &first);
    sched_setaffinity(0, sizeof first, &first);
  }
  const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  dup2(out, STDOUT_FILENO);
  dup2(out, STDERR_FILENO);
  execve(argv[0], argv.data(), envp.data());
  _exit(127);
}

LimitedProcess::~LimitedProcess() {
  if (process_ > 0) {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  for (const std::string& group : groups_) rmdir(group.c_str());
}

void LimitedProcess::MakeGroups() {
  const std::string name = "/ringmaster-b15-" + std::to_string(getpid());
  const auto make = [&](const std::string& controller, const char* file, const std::string& value) {
    const std::string group = kRoot + controller + name;
    if (mkdir(group.c_str(), 0755) != 0 && errno != EEXIST) return false;
    if (groups_.empty() || groups_.back() != group) groups_.push_back(group);
    return Write(group + "/" + file, value);
  };
  const bool unified = std::filesystem::exists(std::string(kRoot) + "/cgroup.controllers");
  const bool made = unified ? make("", "memory.max", std::to_string(kMemory)) &&
                                  make("", "cpu.max", "100000 100000")
                            : make("/memory", "memory.limit_in_bytes", std::to_string(kMemory)) &&
                                  make("/cpu", "cpu.cfs_period_us", "100000") &&
                                  make("/cpu", "cpu.cfs_quota_us", "100000");
  if (made) {
    limits_ = unified ? "cgroup v2" : "cgroup v1";
    return;
  }
  for (const std::string& group : groups_) rmdir(group.c_str());
  groups_.clear();
  limits_ = "one CPU by affinity, memory measured but not limited";
}

void LimitedProcess::JoinGroups(pid_t process) const {
  for (const std::string& group : groups_) Write(group + "/cgroup.procs", std::to_string(process));
}

bool LimitedProcess::Runs() const {
  return process_ > 0 && waitpid(process_, nullptr, WNOHANG) == 0;
}

std::chrono::duration<double> LimitedProcess::Cpu() const {
  clockid_t clock{};
  timespec time{};
  if (clock_getcpuclockid(process_, &clock) != 0 || clock_gettime(clock, &time) != 0) return {};
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

int64_t LimitedProcess::PeakMemory() const {
  std::istringstream lines(Read("/proc/" + std::to_string(process_) + "/status"));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("VmHWM:")) return std::atoll(line.c_str() + 6) << 10;
  }
  return 0;
}

}  // namespace ringmaster::bench
