#include "worker/bench/training/limited_link.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <sstream>
#include <sys/wait.h>
#include <unistd.h>

namespace ringmaster::bench {
namespace {

constexpr char kMark[] = "rmb";

struct Ran {
  bool succeeded = false;
  std::string output;
};

// Runs a command line. Use it only for commands that this file composes.
Ran RunCommand(const std::string& command) {
  Ran ran;
  std::FILE* const pipe = ::popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return ran;
  std::array<char, 512> piece{};
  while (std::fgets(piece.data(), piece.size(), pipe) != nullptr) ran.output += piece.data();
  const int status = ::pclose(pipe);
  ran.succeeded = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  return ran;
}

Result<void> Must(const std::string& command) {
  const Ran ran = RunCommand(command);
  if (ran.succeeded) return {};
  return Error{ErrorKind::kUnavailable, "while running '" + command + "': " + ran.output};
}

// Returns the pid in a name like "rmb1234h0"; 0 if there is none.
int OwnerOf(const std::string& name) {
  int pid = 0;
  if (name.starts_with(kMark)) {
    std::from_chars(name.data() + sizeof kMark - 1, name.data() + name.size(), pid);
  }
  return pid;
}

void RemoveLeftovers() {
  std::istringstream lines(RunCommand("ip netns list").output);
  for (std::string name, line; lines >> name && std::getline(lines, line);) {
    const int owner = OwnerOf(name);
    if (owner == 0 || ::kill(owner, 0) == 0) continue;
    RunCommand("ip netns del " + name);
    RunCommand("ip link del " + std::string(kMark) + std::to_string(owner) + "b");
  }
}

// Returns whether the text is a number followed by kbit, mbit or gbit, in lower or upper case.
bool IsRate(const std::string& text) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [unit, error] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  std::string name(unit, end);
  std::ranges::transform(name, name.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return error == std::errc() && number > 0 && (name == "kbit" || name == "mbit" || name == "gbit");
}

}  // namespace

Result<std::unique_ptr<LimitedLink>> LimitedLink::Make(int hosts, const std::string& rate) {
  if (!IsRate(rate)) {
    return Error{ErrorKind::kInvalid,
                 "--link=" + rate + " is not a valid rate; write for example 1Gbit or 100Mbit"};
  }
  if (::geteuid() != 0) {
    return Error{
        ErrorKind::kInvalid,
        "--link=" + rate +
            " creates network namespaces, which requires root; run as root or remove --link"};
  }
  RemoveLeftovers();
  std::unique_ptr<LimitedLink> link(new LimitedLink(hosts));
  if (Result<void> up = link->SetUp(rate); !up.ok()) {
    return up.error().WithContext("creating hosts connected by links of " + rate);
  }
  return link;
}

LimitedLink::LimitedLink(int hosts) : hosts_(hosts), prefix_(kMark + std::to_string(::getpid())) {}

Result<void> LimitedLink::SetUp(const std::string& rate) const {
  std::vector<std::string> commands{"ip link add " + Bridge() + " type bridge",
                                    "ip link set " + Bridge() + " up"};
  const std::vector<std::string> addresses = this->addresses();
  for (int host = 0; host < hosts_; ++host) {
    const std::string name = Host(host);
    const std::string& address = addresses[static_cast<std::size_t>(host)];
    commands.push_back("ip netns add " + name);
    commands.push_back("ip link add " + Port(host) + " type veth peer name eth0 netns " + name);
    commands.push_back("ip link set " + Port(host) + " master " + Bridge() + " up");
    commands.push_back("ip -n " + name + " addr add " + address + "/24 dev eth0");
    commands.push_back("ip -n " + name + " link set eth0 up");
    commands.push_back("ip -n " + name + " link set lo up");
    // The bucket has room for a few packets of maximum size; the queue has room for TCP's windows.
    commands.push_back("tc -n " + name + " qdisc add dev eth0 root tbf rate " + rate +
                       " burst 256kb latency 50ms");
  }
  for (const std::string& command : commands) {
    if (Result<void> done = Must(command); !done.ok()) return done;
  }
  return {};
}

LimitedLink::~LimitedLink() {
  for (int host = 0; host < hosts_; ++host) {
    RunCommand("ip link del " + Port(host));
    RunCommand("ip netns del " + Host(host));
  }
  RunCommand("ip link del " + Bridge());
}

std::vector<std::string> LimitedLink::namespaces() const {
  std::vector<std::string> names;
  for (int host = 0; host < hosts_; ++host) names.push_back(Host(host));
  return names;
}

std::vector<std::string> LimitedLink::addresses() const {
  std::vector<std::string> addresses;
  for (int host = 0; host < hosts_; ++host) {
    addresses.push_back("10.99.78." + std::to_string(host + 10));
  }
  return addresses;
}

std::string LimitedLink::Host(int host) const { return prefix_ + "h" + std::to_string(host); }
std::string LimitedLink::Port(int host) const { return prefix_ + "v" + std::to_string(host); }
std::string LimitedLink::Bridge() const { return prefix_ + "b"; }

}  // namespace ringmaster::bench
