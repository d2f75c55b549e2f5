#include "tests/runtime/hosts.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <netinet/in.h>
#include <sstream>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include <gtest/gtest.h>

#include "tests/paths.h"

namespace ringmaster::runtime_test {
namespace {

constexpr char kMark[] = "rmt";

// Runs a command on a host. Arguments: the host's name ($1), its address ($2), and the arguments of
// env: the environment and the command. The name resolves to the address, as in a Pod.
constexpr char kEnter[] = R"(hostname "$1" && mount -t tmpfs tmpfs /dev/shm &&
mount -t tmpfs tmpfs /run && printf '127.0.0.1 localhost\n%s %s\n' "$2" "$1" >/run/hosts &&
mount --bind /run/hosts /etc/hosts && shift 2 && exec env -i "$@")";

// Returns the folder in which the build keeps the libraries that the programs are linked with.
std::string CacheFolder() {
  if (const char* cache = std::getenv("RINGMASTER_CACHE")) return cache;
  const char* home = std::getenv("HOME");
  return home == nullptr ? std::string() : std::string(home) + "/.cache/ringmaster";
}

// Returns commands that mount an empty /tmp, and a /root without the start-up files that a shell
// under ssh would read. A build tree or cache below these folders stays visible.
std::string MountOwnFolders() {
  std::string mounts;
  for (const std::string folder : {"/tmp", "/root"}) {
    mounts += "mount -t tmpfs tmpfs /mnt && ";
    for (const std::string& kept : {BuildFolder(), CacheFolder()}) {
      if (!kept.starts_with(folder + "/") || !std::filesystem::exists(kept)) continue;
      const std::string place = "'/mnt" + kept.substr(folder.size()) + "'";
      mounts += "mkdir -p " + place + " && mount --bind '" + kept + "' " + place + " && ";
    }
    mounts += "mount --move /mnt " + folder + " && ";
  }
  return mounts;
}

// Runs a command in a control group. Arguments: the folder of the group ($0), and the command.
constexpr char kJoinGroup[] = R"(echo $$ > "$0/cgroup.procs" && exec "$@")";
// `ip netns exec` mounts a /sys without control groups.
constexpr char kMountGroups[] =
    "mount -t tmpfs tmpfs /sys/fs/cgroup && mkdir /sys/fs/cgroup/memory && "
    "mount -t cgroup -o memory memory /sys/fs/cgroup/memory && ";

// Returns the folder of the cgroup v1 memory group of this process; empty if there is none.
std::string OwnMemoryGroup() {
  std::istringstream lines(ReadFile("/proc/self/cgroup"));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t found = line.find(":memory:");
    if (found != std::string::npos) return "/sys/fs/cgroup/memory" + line.substr(found + 8);
  }
  return "";
}

// Returns the folder of a control group below the root, for the machine's cgroup version, v1 or v2.
std::string CpuGroup(const std::string& name) {
  const bool unified = std::filesystem::exists("/sys/fs/cgroup/cgroup.controllers");
  return std::string("/sys/fs/cgroup") + (unified ? "/" : "/cpu/") + name;
}

// Chains of nftables that drop packets silently.
constexpr char kDropIn[] =
    "chain in { type filter hook input priority 0; iifname != \"lo\" drop; }; ";
constexpr char kDropOut[] =
    "chain out { type filter hook output priority 0; oifname != \"lo\" drop; }; ";

void Ip(const std::string& arguments) {
  std::vector<std::string> argv{"ip"};
  std::istringstream words(arguments);
  for (std::string word; words >> word;) argv.push_back(word);
  const Ran ran = RunCommand(argv);
  EXPECT_EQ(ran.exit_code, 0) << "ip " << arguments << ": " << ran.output;
}

// Returns the children of all threads, because prted does not start ranks on its first thread.
std::vector<pid_t> Children(pid_t process) {
  std::vector<pid_t> children;
  std::error_code gone;
  const std::string tasks = "/proc/" + std::to_string(process) + "/task";
  for (std::filesystem::directory_iterator task(tasks, gone), end; task != end;
       task.increment(gone)) {
    std::istringstream pids(ReadFile(task->path().string() + "/children"));
    for (pid_t pid = 0; pids >> pid;) children.push_back(pid);
  }
  return children;
}

// Returns the pid in a name such as "rmt1234h0", or 0.
int OwnerOf(const std::string& name) {
  int pid = 0;
  if (name.starts_with(kMark)) {
    std::from_chars(name.data() + sizeof kMark - 1, name.data() + name.size(), pid);
  }
  return pid;
}

void RemoveLeftovers() {
  std::istringstream lines(RunCommand({"ip", "netns", "list"}).output);
  for (std::string name, line; lines >> name && std::getline(lines, line);) {
    const int owner = OwnerOf(name);
    if (owner == 0 || kill(owner, 0) == 0) continue;
    RunCommand({"ip", "netns", "del", name});
    RunCommand({"ip", "link", "del", kMark + std::to_string(owner) + "b"});
  }
}

}  // namespace

bool Hosts::Possible() {
  return geteuid() == 0 &&
         RunCommand({"unshare", "--net", "--pid", "--fork", "true"}).exit_code == 0;
}

bool Hosts::CanLimitMemory() {
  return Possible() && access((OwnMemoryGroup() + "/memory.oom_control").c_str(), W_OK) == 0;
}

void Hosts::LimitMemory(int host, int64_t bytes) {
  const std::string group = OwnMemoryGroup() + "/" + Namespace(host);
  std::filesystem::create_directory(group);
  WriteFile(group + "/memory.limit_in_bytes", std::to_string(bytes));
  memory_groups_[host] = group;
}

void Hosts::LimitCpu(int host, double cpus) {
  constexpr int kPeriodMicros = 10000;
  const std::string group = CpuGroup(Namespace(host));
  const std::string quota = std::to_string(std::lround(cpus * kPeriodMicros));
  const std::string period = std::to_string(kPeriodMicros);
  std::filesystem::create_directory(group);
  if (std::filesystem::exists("/sys/fs/cgroup/cgroup.controllers")) {
    WriteFile("/sys/fs/cgroup/cgroup.subtree_control", "+cpu");
    WriteFile(group + "/cpu.max", quota + " " + period);
    EXPECT_EQ(ReadFile(group + "/cpu.max"), quota + " " + period + "\n");
  } else {
    WriteFile(group + "/cpu.cfs_period_us", period);
    WriteFile(group + "/cpu.cfs_quota_us", quota);
    EXPECT_EQ(ReadFile(group + "/cpu.cfs_quota_us"), quota + "\n");
  }
  cpu_groups_[host] = group;
}

Hosts::Hosts(int count) : count_(count), prefix_(kMark + std::to_string(getpid())) {
  RemoveLeftovers();
  StartRemover();
  const std::string bridge = prefix_ + "b";
  Ip("link add " + bridge + " type bridge");
  Ip("link set " + bridge + " up");
  for (int host = 0; host < count_; ++host) {
    Ip("netns add " + Namespace(host));
    Ip("link add " + Link(host) + " type veth peer name eth0 netns " + Namespace(host));
    Ip("link set " + Link(host) + " master " + bridge + " up");
    Ip("-n " + Namespace(host) + " addr add " + Address(host) + "/24 dev eth0");
    Ip("-n " + Namespace(host) + " link set eth0 up");
    Ip("-n " + Namespace(host) + " link set lo up");
  }
}

// Starts a helper that removes the hosts when this process ends, unless the helper reads a line.
void Hosts::StartRemover() {
  std::string script = "read -r line && exit 0; ";
  for (int host = 0; host < count_; ++host) {
    script += "ip link del " + Link(host) + "; ip netns del " + Namespace(host) + "; ";
  }
  script += "ip link del " + prefix_ + "b; ";
  for (int host = 0; host < count_; ++host) {
    // A control group can be removed only after its last process has ended.
    for (const std::string& group :
         {OwnMemoryGroup() + "/" + Namespace(host), CpuGroup(Namespace(host))}) {
      script += "for i in 1 2 3 4 5; do [ -d " + group + " ] || break; rmdir " + group +
                " || sleep 1; done; ";
    }
  }
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
  remover_pipe_ = ends[1];
  remover_ = fork();
  if (remover_ == 0) {
    setsid();  // signals to our process group must not end the helper
    dup2(ends[0], STDIN_FILENO);
    const int null_fd = open("/dev/null", O_WRONLY);
    dup2(null_fd, STDOUT_FILENO);
    dup2(null_fd, STDERR_FILENO);
    execlp("sh", "sh", "-c", script.c_str(), nullptr);
    _exit(127);
  }
  close(ends[0]);
}

Hosts::~Hosts() {
  for (int host = 0; host < count_; ++host) {
    // A namespace exists until its last process ends, but the link's name must be free at once.
    Ip("link del " + Link(host));
    Ip("netns del " + Namespace(host));
  }
  Ip("link del " + prefix_ + "b");
  for (const auto* groups : {&memory_groups_, &cpu_groups_}) {
    for (const auto& limited : *groups) {
      const std::string& group = limited.second;
      EXPECT_TRUE(WaitUntil(Seconds(10), [&] { return rmdir(group.c_str()) == 0; })) << group;
    }
  }
  EXPECT_EQ(write(remover_pipe_, "\n", 1), 1);
  close(remover_pipe_);
  waitpid(remover_, nullptr, 0);
}

std::string Hosts::Address(int host) const { return "10.99.77." + std::to_string(host + 10); }

std::string Hosts::Namespace(int host) const { return prefix_ + "h" + std::to_string(host); }

std::string Hosts::Link(int host) const { return prefix_ + "v" + std::to_string(host); }

std::unique_ptr<Process> Hosts::Start(int host, const std::string& host_name,
                                      const Variables& variables,
                                      const std::vector<std::string>& argv,
                                      const std::string& log_file,
                                      const std::string& working_dir) const {
  const auto group = memory_groups_.find(host);
  const bool limited = group != memory_groups_.end();
  std::string enter = (limited ? kMountGroups : "") + MountOwnFolders();
  for (const std::string& program : hidden_) enter += "mount --bind /dev/null " + program + " && ";
  enter += kEnter;
  std::vector<std::string> command;
  if (limited) command = {"sh", "-c", kJoinGroup, group->second};
  if (const auto cpu_group = cpu_groups_.find(host); cpu_group != cpu_groups_.end()) {
    command.insert(command.end(), {"sh", "-c", kJoinGroup, cpu_group->second});
  }
  const std::vector<std::string> start = {
      "ip",    "netns", "exec",    Namespace(host), "unshare",      "--pid", "--mount",
      "--uts", "--ipc", "--fork",  "--kill-child",  "--mount-proc", "sh",    "-c",
      enter,   "sh",    host_name, Address(host)};
  command.insert(command.end(), start.begin(), start.end());
  if (!working_dir.empty()) command.push_back("--chdir=" + working_dir);
  for (const auto& [name, value] : variables) command.push_back(name + "=" + value);
  command.insert(command.end(), argv.begin(), argv.end());
  return std::make_unique<Process>(command, log_file);
}

void Hosts::Signal(const Process& process, int signal) {
  const std::string pid = std::to_string(process.pid());
  std::istringstream children(ReadFile("/proc/" + pid + "/task/" + pid + "/children"));
  pid_t child = 0;
  ASSERT_TRUE(children >> child) << "the process has ended already";
  kill(child, signal);
}

int Hosts::BreakConnections(pid_t pid) {
  int broken = 0;
  const int process = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  EXPECT_GE(process, 0) << "process " << pid << " has ended";
  std::error_code ended;
  const std::string folder = "/proc/" + std::to_string(pid) + "/fd";
  for (const auto& entry : std::filesystem::directory_iterator(folder, ended)) {
    const int number = std::stoi(entry.path().filename());
    const int copy = static_cast<int>(syscall(SYS_pidfd_getfd, process, number, 0));
    sockaddr_storage peer{};
    socklen_t length = sizeof peer;
    if (getpeername(copy, reinterpret_cast<sockaddr*>(&peer), &length) == 0 &&
        (peer.ss_family == AF_INET || peer.ss_family == AF_INET6)) {
      broken += shutdown(copy, SHUT_RDWR) == 0 ? 1 : 0;
    }
    close(copy);
  }
  close(process);
  return broken;
}

std::vector<pid_t> Hosts::Find(const Process& process, const std::string& program) {
  std::vector<pid_t> found;
  std::vector<pid_t> parents{process.pid()};
  while (!parents.empty()) {
    const std::vector<pid_t> children = Children(parents.back());
    parents.pop_back();
    for (const pid_t child : children) {
      const std::string command = ReadFile("/proc/" + std::to_string(child) + "/cmdline");
      const std::string file = command.substr(0, command.find('\0'));
      if (file.substr(file.rfind('/') + 1) == program) found.push_back(child);
    }
    parents.insert(parents.end(), children.begin(), children.end());
  }
  std::sort(found.begin(), found.end());
  return found;
}

void Hosts::SetCut(int host, bool cut) const {
  SetRules(host, cut ? std::string("add table inet cut { ") + kDropIn + kDropOut + "}"
                     : "delete table inet cut");
}

void Hosts::CutInward(int host) const {
  SetRules(host, std::string("add table inet cut { ") + kDropIn + "}");
}

void Hosts::SetRules(int host, const std::string& rules) const {
  const Ran ran = RunCommand({"ip", "netns", "exec", Namespace(host), "nft", rules});
  EXPECT_EQ(ran.exit_code, 0) << ran.output;
}

}  // namespace ringmaster::runtime_test
