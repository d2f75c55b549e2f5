// Figure B15: the time from the loss of a rank or agent in a large world until a launcher with its
// container's default limits has sent the next world to all agents.

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sys/resource.h>
#include <tuple>
#include <utility>

#include <CLI/CLI.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>

#include "bench/large_world/limited_process.h"
#include "bench/large_world/played_agents.h"
#include "common/control/launch_spec.h"
#include "common/control/launcher_api.h"
#include "common/control/pod_contract.h"
#include "common/control/secrets.h"
#include "tests/unit/control/test_certificate.h"
#include "worker/bench/harness/figure.h"
#include "worker/bench/harness/scratch_folder.h"

namespace ringmaster::bench {
namespace {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;
using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr char kJobUid[] = "large";
constexpr double kGoalOfThousand = 0.3;
constexpr double kGoalOfTenThousand = 2;

std::pair<int, int> FreePorts() {
  asio::io_context io;
  const tcp::endpoint any(asio::ip::make_address("127.0.0.1"), 0);
  const tcp::acceptor one(io, any);
  const tcp::acceptor two(io, any);
  return {one.local_endpoint().port(), two.local_endpoint().port()};
}

// A folder with the job's credentials and a fake mpirun, which starts nothing.
class Job {
 public:
  explicit Job(const std::string& launcher) {
    const auto certificate = control::MakeTestCertificate(control::TlsServerName(kJobUid));
    const std::map<std::string, std::string> items = {
        {control::kItemSshUserKey, "none"},
        {control::kItemSshHostPublicKey, "ssh-ed25519 none"},
        {control::kItemTlsKey, certificate.key_pem},
        {control::kItemTlsCertificate, certificate.certificate_pem},
        {control::kItemAgentToken, "agents"},
        {control::kItemOperatorToken, "operators"}};
    std::filesystem::create_directory(folder_.path() + "/credentials");
    std::string hashes;
    for (const auto& [item, text] : items) {
      Write("credentials/" + item, text);
      hashes += (hashes.empty() ? "{\"" : ",\"") + item + "\":\"" + control::Sha256Hex(text) + "\"";
    }
    Write("mpirun",
          "#!/bin/sh\n[ \"$1\" = --version ] && echo 'mpirun (Open MPI) 4.1.4' && exit\n"
          "exec sleep 3600\n");
    std::filesystem::permissions(folder_.path() + "/mpirun", std::filesystem::perms::owner_all);
    std::tie(control_port_, api_port_) = FreePorts();
    control::LaunchSpec spec;
    spec.command = {"ringmaster-train"};
    spec.slots_per_worker = kSlots;
    client_ =
        *control::TlsContext::Client(certificate.certificate_pem, control::TlsServerName(kJobUid));
    launcher_.emplace(std::vector<std::string>{launcher},
                      std::map<std::string, std::string>{
                          {"PATH", folder_.path() + ":/usr/bin:/bin"},
                          {"HOME", folder_.path()},
                          {control::kEnvJobUid, kJobUid},
                          {control::kEnvJobName, "large"},
                          {control::kEnvNamespace, "bench"},
                          {control::kEnvTerm, "1"},
                          {control::kEnvLaunchSpec, control::EncodeLaunchSpec(spec)},
                          {control::kEnvItemHashes, hashes + "}"},
                          {control::kEnvCredentialsDir, folder_.path() + "/credentials"},
                          {control::kEnvRuntimeDir, folder_.path() + "/run"},
                          {control::kEnvTerminationLog, folder_.path() + "/verdict"},
                          {control::kEnvControlPort, std::to_string(control_port_)},
                          {control::kEnvApiPort, std::to_string(api_port_)}},
                      folder_.path() + "/launcher.log");
  }

  // Sends the order, or a status request if `order` is empty. Returns the launcher's status.
  std::optional<control::LauncherStatus> Ask(const std::string& order = {}) {
    asio::io_context io;
    asio::ssl::stream<tcp::socket> stream(io, client_->asio());
    boost::system::error_code error;
    stream.next_layer().connect(
        {asio::ip::make_address("127.0.0.1"), static_cast<unsigned short>(api_port_)}, error);
    if (!error) stream.handshake(asio::ssl::stream_base::client, error);
    const std::string request =
        (order.empty() ? "GET /v1/status" : "PUT /v1/order") +
        std::string(" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n") +
        "Authorization: Bearer operators\r\nContent-Length: " + std::to_string(order.size()) +
        "\r\n\r\n" + order;
    if (!error) asio::write(stream, asio::buffer(request), error);
    std::string reply;
    if (!error) asio::read(stream, asio::dynamic_buffer(reply), error);
    const std::size_t body = reply.find("\r\n\r\n");
    if (body == std::string::npos) return std::nullopt;
    auto status = control::DecodeLauncherStatus(std::string_view(reply).substr(body + 4));
    if (!status.ok()) return std::nullopt;
    return *std::move(status);
  }

  std::string Log() const {
    std::ifstream file(folder_.path() + "/launcher.log");
    return {std::istreambuf_iterator<char>(file), {}};
  }
  LimitedProcess& launcher() { return *launcher_; }
  control::TlsContext& client() { return *client_; }
  int control_port() const { return control_port_; }
  int api_port() const { return api_port_; }

 private:
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_.path() + "/" + name) << text;
  }

  const ScratchFolder folder_{"/tmp/ringmaster-b15"};
  int control_port_ = 0;
  int api_port_ = 0;
  std::unique_ptr<control::TlsContext> client_;
  std::optional<LimitedProcess> launcher_;
};

struct Measured {
  double rank_lost = 0;   // median time in s after the loss of a rank
  double agent_lost = 0;  // median time in s after the loss of an agent
  double cpu = 0;         // median CPU time in s of the launcher for a loss
  double steady_cpu = 0;  // share of a CPU that the launcher uses when idle
  double memory_mib = 0;
  std::string limits;
};

class Figure {
 public:
  Figure(const std::string& launcher, int ranks, int strangers)
      : job_(launcher),
        agents_(io_, job_.client(),
                {.token = "agents",
                 .job_uid = kJobUid,
                 .port = job_.control_port(),
                 .agents = ranks / kSlots}),
        count_(ranks / kSlots),
        strangers_wanted_(strangers) {}

  std::optional<Measured> Run(int losses) {
    if (!Form()) return std::nullopt;
    const int dropped = agents_.Dropped();
    Measured measured;
    measured.limits = job_.launcher().limits();
    measured.steady_cpu = SteadyCpu();
    std::vector<double> ranks;
    std::vector<double> agents;
    std::vector<double> cpu;
    for (int i = 0; i < losses; ++i) {
      const int agent = (1 + i * 37) % count_;
      const auto lost = Loss([&] { agents_.LoseRank(agent, i % kSlots); });
      if (!lost) return std::nullopt;
      ranks.push_back(lost->took);
      cpu.push_back(lost->cpu);
      // Restart the rank, so that the world has the same size at each loss.
      if (!Loss([&] { agents_.RestartRank(agent, i % kSlots); })) return std::nullopt;
    }
    for (int i = 0; i < losses && i < count_ / 4; ++i) {
      const auto lost = Loss([&] { agents_.LoseAgent(count_ - 1 - i); });
      if (!lost) return std::nullopt;
      agents.push_back(lost->took);
    }
    measured.rank_lost = Median(ranks);
    measured.agent_lost = Median(agents);
    measured.cpu = Median(cpu);
    measured.memory_mib = static_cast<double>(job_.launcher().PeakMemory()) / (1 << 20);
    if (agents_.Dropped() > dropped) {
      std::printf("%d agents lost their connection\n", agents_.Dropped() - dropped);
      return std::nullopt;
    }
    return measured;
  }

  std::string Log() const { return job_.Log(); }

 private:
  // Runs the agents until `done` returns true. Returns false on timeout or if the launcher ended.
  template <typename Done>
  bool Until(Done done, std::chrono::seconds limit = std::chrono::seconds(120)) {
    const auto end = Clock::now() + limit;
    while (!done()) {
      if (Clock::now() > end || !job_.launcher().Runs()) return false;
      io_.run_for(std::chrono::milliseconds(1));
      io_.restart();
    }
    return true;
  }

  // Opens connections to both ports and sends nothing over them.
  void BringStrangers() {
    for (int i = 0; i < strangers_wanted_; ++i) {
      boost::system::error_code ignored;
      const int port = i % 2 == 0 ? job_.control_port() : job_.api_port();
      strangers_.emplace_back(io_).connect(
          {asio::ip::make_address("127.0.0.1"), static_cast<unsigned short>(port)}, ignored);
    }
  }

  bool Form() {
    control::Order order;
    order.stamp = {1, 1};
    order.replicas = count_;
    for (int i = 0; i < count_; ++i) {
      order.workers.push_back(
          {PlayedAgents::Uid(i), PlayedAgents::Pod(i), PlayedAgents::Node(i), i});
    }
    const std::string text = control::EncodeOrder(order);
    if (!Until([&] { return job_.Ask().has_value(); })) return false;
    BringStrangers();
    if (!job_.Ask(text)) return false;
    agents_.Dial();
    if (!Until([&] { return agents_.Welcomed() == count_; })) return false;
    std::optional<control::LauncherStatus> status;
    auto asked_at = Clock::now();
    const bool starts = Until([&] {
      // Request the status only as often as an operator does, so that the agents can run meanwhile.
      if (Clock::now() - asked_at < std::chrono::milliseconds(500)) return false;
      asked_at = Clock::now();
      status = job_.Ask();
      return status && status->phase == control::LauncherPhase::kStarting;
    });
    if (!starts) return false;
    agents_.AttachAll(status->epoch.number);
    return Until([&] { return agents_.epoch().number > 0 && agents_.AllInformed(); });
  }

  double SteadyCpu() {
    const auto began = Clock::now();
    const Seconds before = job_.launcher().Cpu();
    Until([&] { return Clock::now() - began > std::chrono::seconds(5); });
    return (job_.launcher().Cpu() - before) / Seconds(Clock::now() - began);
  }

  // The cost of one loss. `took`: seconds until all agents have received the next world.
  struct Lost {
    double took = 0;
    double cpu = 0;  // the launcher's CPU time, in seconds
  };
  std::optional<Lost> Loss(const std::function<void()>& lose) {
    const control::Epoch before = agents_.epoch();
    const Seconds cpu_before = job_.launcher().Cpu();
    const auto began = Clock::now();
    lose();
    if (!Until([&] { return agents_.epoch() > before && agents_.AllInformed(); }))
      return std::nullopt;
    const Lost lost{Seconds(Clock::now() - began).count(),
                    (job_.launcher().Cpu() - cpu_before).count()};
    const auto calm = Clock::now() + std::chrono::milliseconds(500);
    Until([&] { return Clock::now() > calm; });
    return lost;
  }

  asio::io_context io_;
  Job job_;
  PlayedAgents agents_;
  const int count_;
  const int strangers_wanted_;
  std::vector<tcp::socket> strangers_;
};

int Measure(const std::string& launcher, const std::vector<int>& sizes, int losses, int strangers) {
  std::map<int, Measured> all;
  for (const int ranks : sizes) {
    Figure figure(launcher, ranks, strangers);
    const auto measured = figure.Run(losses);
    if (!measured) {
      const std::string log = figure.Log();
      std::printf("%d ranks: no answer in time; the end of the launcher's log:\n%s\n", ranks,
                  log.substr(log.size() - std::min<std::size_t>(log.size(), 2000)).c_str());
      return EXIT_FAILURE;
    }
    all[ranks] = *measured;
    std::printf(
        "%5d ranks: a rank lost %.4f s, an agent lost %.4f s; launcher: %.4f s of CPU for a loss, "
        "%.0f%% of a CPU between losses, %.0f MiB at most (%s)\n",
        ranks, measured->rank_lost, measured->agent_lost, measured->cpu, 100 * measured->steady_cpu,
        measured->memory_mib, measured->limits.c_str());
    std::fflush(stdout);
  }
  const auto& [most, last] = *all.rbegin();
  bool holds = last.rank_lost <= (most <= 1000 ? kGoalOfThousand : kGoalOfTenThousand);
  nlohmann::ordered_json worlds;
  for (const auto& [ranks, one] : all) {
    if (ranks <= 1000) holds = holds && one.rank_lost <= kGoalOfThousand;
    // The time must not outgrow the number of ranks. Below 1,000 ranks, round trips dominate.
    if (ranks >= 1000) holds = holds && last.rank_lost * ranks <= one.rank_lost * most;
    worlds.push_back({{"ranks", ranks},
                      {"rankLost", one.rank_lost},
                      {"agentLost", one.agent_lost},
                      {"cpu", one.cpu},
                      {"steadyCpu", one.steady_cpu},
                      {"memoryMiB", one.memory_mib}});
  }
  PrintFigure({.name = "B15",
               .value = last.rank_lost,
               .unit = "s",
               .goal = "<= 0.3 s at 1,000 ranks, <= 2 s at 10,000, no faster than linear",
               .holds = holds},
              {{"limits", last.limits}, {"worlds", worlds}});
  return EXIT_SUCCESS;
}

}  // namespace
}  // namespace ringmaster::bench

int main(int argc, char** argv) {
  std::string launcher;
  std::vector<int> sizes = {100, 1000, 10'000};
  int losses = 5;
  int strangers = 0;
  CLI::App app("Figure B15: time from a loss in a large world until every rank is notified");
  app.add_option("--launcher", launcher, "ringmaster-launcher")->required();
  app.add_option("--ranks", sizes, "world sizes, in ranks")->delimiter(',');
  app.add_option("--losses", losses, "number of losses of each kind in each world");
  app.add_option("--strangers", strangers, "number of idle connections to the launcher's ports");
  CLI11_PARSE(app, argc, argv);
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
  }
  return ringmaster::bench::Measure(launcher, sizes, losses, strangers);
}
