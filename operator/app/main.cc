// Runs the operator: reads the flags, creates all objects, runs them and stops them. This file,
// caches.cc and rights.cc are the only files that use concrete types, so they show the
// architecture. The headers describe each part.

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <malloc.h>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/process/process.h"
#include "operator/app/caches.h"
#include "operator/app/main_events.h"
#include "operator/app/metrics_port.h"
#include "operator/app/options.h"
#include "operator/app/release_jobs.h"
#include "operator/app/rights.h"
#include "operator/http/admin_server.h"
#include "operator/http/cpprest_http_client.h"
#include "operator/job/admission/profile.h"
#include "operator/job/controller/job_metrics.h"
#include "operator/job/controller/local_profiles.h"
#include "operator/job/controller/profile_source.h"
#include "operator/job/controller/profile_statuses.h"
#include "operator/job/controller/reconciler.h"
#include "operator/job/credentials/keyring.h"
#include "operator/job/launchers/launcher_poller.h"
#include "operator/kube/kube_client.h"
#include "operator/kube/resource_version.h"
#include "operator/kube/token_source.h"
#include "operator/runtime/access_check.h"
#include "operator/runtime/controller.h"
#include "operator/runtime/event_recorder.h"
#include "operator/runtime/leader_elector.h"
#include "operator/runtime/metrics.h"
#include "operator/runtime/request_pool.h"
#include "operator/runtime/work_queue.h"

namespace ringmaster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A thread without progress for this time counts as stuck. It is longer than the idle limit of a
// watch plus the longest back-off, and longer than the slowest reconcile.
constexpr seconds kUnhealthyAfter{300};
constexpr seconds kStopLimit{8};
constexpr int kNamespacesAtOnce = 4;  // few are enough, because only users read these objects
// The time limit of a review: both reviews of a token must end within Prometheus' scrape timeout.
constexpr seconds kReviewLimit{4};

// A client for one use of the API server. Each client has separate connections and limits and a
// separate idle timeout, so that the uses cannot delay each other.
struct Connection {
  std::unique_ptr<http::HttpClient> http;
  std::unique_ptr<kube::KubeClient> kube;
};

Result<Connection> Connect(http::HttpClientFactory& factory, const kube::ClusterConfig& cluster,
                           kube::TokenSource& tokens, runtime::Metrics& metrics,
                           seconds idle_timeout) {
  auto made = factory.Make({.base_url = cluster.server,
                            .ca_pem = cluster.ca_pem,
                            .ca_file = cluster.ca_file,
                            .server_name = cluster.server_name,
                            .certificate_pem = cluster.certificate_pem,
                            .key_pem = cluster.key_pem,
                            .idle_timeout = idle_timeout,
                            .on_answer = metrics.OnAnswer()});
  if (!made.ok()) return made.error().WithContext("preparing the connection to " + cluster.server);
  Connection connection{*std::move(made), nullptr};
  connection.kube = std::make_unique<kube::KubeClient>(*connection.http, &tokens);
  return connection;
}

net::HttpAnswer Ready(const Caches& caches, const runtime::AccessCheck& access) {
  std::string problems = caches.Problems();
  if (const std::string missing = access.Problem(); !missing.empty()) problems += missing + "\n";
  if (problems.empty() && !caches.Synced()) problems = "the caches are not synced yet\n";
  if (problems.empty() && !access.Complete())
    problems = "the operator's permissions are not known yet\n";
  if (!problems.empty()) return {503, problems};
  const std::string note = access.Note();
  return {200, note.empty() ? "ok\n" : "ok\n" + note + "\n"};
}

net::HttpAnswer Healthy(const Caches& caches, const runtime::Controller& controller) {
  if (!caches.Healthy(kUnhealthyAfter)) return {503, "a watch thread is stuck\n"};
  if (!controller.Healthy(kUnhealthyAfter)) return {503, "a worker is stuck on one job\n"};
  return {200, "ok\n"};
}

struct Connections {
  Connection requests;
  Connection watches;
  Connection lease;
  Connection reviews;  // for reviews of unknown tokens
};

Result<Connections> ConnectAll(http::HttpClientFactory& factory, const kube::ClusterConfig& cluster,
                               kube::TokenSource& tokens, runtime::Metrics& metrics) {
  Result<Connection> requests = Connect(factory, cluster, tokens, metrics, seconds(30));
  if (!requests.ok()) return requests.error();
  // Bookmarks arrive about once a minute. A watch that receives nothing for longer has a dead peer.
  Result<Connection> watches = Connect(factory, cluster, tokens, metrics, seconds(90));
  if (!watches.ok()) return watches.error();
  Result<Connection> lease = Connect(factory, cluster, tokens, metrics, seconds(5));
  if (!lease.ok()) return lease.error();
  Result<Connection> reviews = Connect(factory, cluster, tokens, metrics, seconds(5));
  if (!reviews.ok()) return reviews.error();
  reviews->kube->SetDeadline(kReviewLimit);
  return Connections{*std::move(requests), *std::move(watches), *std::move(lease),
                     *std::move(reviews)};
}

job::Scope ScopeOf(const Config& config) {
  return {
      .installation = config.Installation(),
      .excluded_namespaces = {config.exclude_namespaces.begin(), config.exclude_namespaces.end()}};
}

using Presets = std::map<std::string, job::ProfilePtr>;

// The operator's objects, in the order of their dependencies.
class Operator {
 public:
  // All arguments must outlive the Operator.
  Operator(const Config& config, const Presets& presets, const Clock& clock,
           runtime::Metrics& metrics, Connections& connections, const MainEvents& events,
           char* const* argv);

  // Blocks until a signal arrives. Starts the process again if the lease is lost before.
  Result<void> Run();

 private:
  runtime::LeaderElector::Callbacks OnElection();
  void Lead(int64_t term);
  void CampaignUntilStopped();
  void Stop();

  std::atomic<bool> leads_{false};
  std::atomic<bool> stopping_{false};
  std::atomic<int64_t> term_{0};  // the leader's term, sent with orders
  const Config& config_;
  const MainEvents& events_;
  char* const* const argv_;
  const Clock& clock_;
  runtime::Metrics& metrics_;
  kube::KubeClient& reviews_;
  runtime::WorkQueue queue_;
  runtime::WorkQueue namespace_queue_;
  runtime::WorkQueue profile_queue_;
  Caches caches_;
  const job::ProfileSource profiles_;
  runtime::FreshnessGate freshness_;
  runtime::EventRecorder recorder_;
  runtime::RequestPool pool_;
  job::Keyring keyring_;
  job::LauncherPoller launchers_;
  job::JobMetrics job_metrics_;
  std::unique_ptr<runtime::LeaderElector> elector_;  // null: --leader-elect=false
  job::Reconciler reconciler_;
  runtime::Controller controller_;
  job::LocalProfiles local_profiles_;
  runtime::Controller namespace_controller_;
  job::ProfileStatuses profile_statuses_;
  runtime::Controller profile_controller_;
  runtime::AccessCheck access_;
};

Operator::Operator(const Config& config, const Presets& presets, const Clock& clock,
                   runtime::Metrics& metrics, Connections& connections, const MainEvents& events,
                   char* const* argv)
    : config_(config),
      events_(events),
      argv_(argv),
      clock_(clock),
      metrics_(metrics),
      reviews_(*connections.reviews.kube),
      queue_(clock, {}, &metrics.queue()),
      namespace_queue_(clock),
      profile_queue_(clock),
      caches_(config),
      profiles_{.stored = caches_.profiles(), .presets = presets, .operator_ns = config.ns},
      freshness_(clock),
      recorder_(*connections.requests.kube, clock,
                {.reporting_instance = config.instance, .on_dropped = metrics.OnDroppedEvent()}),
      keyring_(*connections.requests.kube, clock, config.ns),
      launchers_(clock, [this](const std::string& job) { queue_.Add(job); }),
      job_metrics_(metrics.registry(), clock, caches_.jobs(), ScopeOf(config)),
      elector_(config.leader_elect
                   ? std::make_unique<runtime::LeaderElector>(*connections.lease.kube, clock,
                                                              config.Election(), OnElection())
                   : nullptr),
      reconciler_({.tools = {clock,
                             *connections.requests.kube,
                             freshness_,
                             pool_,
                             recorder_,
                             {.enabled = config.job_network_policies, .operator_ns = config.ns},
                             config.Installation(),
                             &job_metrics_,
                             {.image = config.tools_image, .own_images = config.own_images}},
                   .jobs = caches_.jobs(),
                   .pods = caches_.pods(),
                   .services = caches_.services(),
                   .nodes = caches_.nodes(),
                   .keyring = keyring_,
                   .launchers = launchers_,
                   .profiles = profiles_,
                   .scope = ScopeOf(config),
                   .leader_term = [this] { return term_.load(); }}),
      controller_(
          clock, queue_, freshness_,
          [this](const std::string& key) { return reconciler_.Reconcile(key); },
          {.workers = config.workers}, &metrics.controller()),
      local_profiles_({.client = *connections.requests.kube,
                       .freshness = freshness_,
                       .profiles = profiles_,
                       .existing = caches_.local_profiles(),
                       .namespaces = caches_.namespaces(),
                       .scope = ScopeOf(config)}),
      namespace_controller_(clock, namespace_queue_, freshness_,
                            [this](const std::string& ns) { return local_profiles_.Reconcile(ns); },
                            {.workers = kNamespacesAtOnce, .key_name = "namespace"}),
      profile_statuses_(
          {.clock = clock,
           .client = *connections.requests.kube,
           .profiles = profiles_,
           .namespaces = caches_.namespaces(),
           .trial_ns = config.watch_namespace.empty() ? config.ns : config.watch_namespace}),
      profile_controller_(
          clock, profile_queue_, freshness_,
          [this](const std::string& key) { return profile_statuses_.Reconcile(key); },
          {.workers = 1, .key_name = "profile"}),
      access_(*connections.requests.kube, NeededRights(config)) {
  metrics.WatchQueue(queue_);
  metrics.AddCollector([this](auto& families) { job_metrics_.Collect(leads_, families); });
  caches_.Feed(queue_, freshness_);
  caches_.FeedNamespaces(namespace_queue_, freshness_);
  caches_.FeedProfiles(profile_queue_);
  caches_.Watch(*connections.watches.kube, clock, metrics, events);
}

runtime::LeaderElector::Callbacks Operator::OnElection() {
  // Another operator may already be active, so this one must not act any more, not even to clean
  // up. It starts again in the same container, because a kubelet delays restarts (ADR 178), unless
  // it has been told to stop, which a new run would not know.
  return {.on_elected = [this](int64_t term) { Lead(term); },
          .on_lost =
              [this](const std::string&) {
                if (stopping_) std::_Exit(1);
                StartAgain(argv_);
              }};
}

void Operator::Lead(int64_t term) {
  term_ = term;
  metrics_.SetLeader(true);
  leads_ = true;
  caches_.Reconnect();
  queue_.Sort(caches_.ByAge());  // oldest jobs first; so far, the keys are sorted by name
  recorder_.Start();
  keyring_.Start();
  controller_.Start();
  namespace_controller_.Start();
  profile_controller_.Start();
}

Result<void> Operator::Run() {
  const auto admin = http::AdminServer::Start(
      config_.admin_address, {{"/healthz", [this] { return Healthy(caches_, controller_); }},
                              {"/readyz", [this] { return Ready(caches_, access_); }}});
  if (!admin.ok()) return admin.error();
  const auto metrics =
      MetricsPort::Start(config_, reviews_, clock_, [this] { return metrics_.Text(); });
  if (!metrics.ok()) return metrics.error();
  access_.Start();
  caches_.Start();
  CampaignUntilStopped();
  Stop();
  return {};
}

// A standby fills its caches before it tries to acquire the lease.
void Operator::CampaignUntilStopped() {
  bool campaigning = false;
  while (true) {
    const MainEvents::Event event = events_.Wait();
    if (event == MainEvents::Event::kStop) return;
    if (event == MainEvents::Event::kServerIsBack) {
      controller_.RetryUnreached();
      namespace_controller_.RetryUnreached();
      profile_controller_.RetryUnreached();
    }
    if (campaigning || !caches_.Synced()) continue;
    campaigning = true;
    malloc_trim(0);  // release the memory that reading the first lists required
    if (elector_) {
      elector_->Start();
    } else {
      // Like an elector's term, this term is not lower than any resourceVersion before the start.
      Lead(kube::NumberOf(caches_.jobs().LastSeenVersion()).value_or(0));
    }
  }
}

void Operator::Stop() {
  LogInfo("Stopping");
  stopping_ = true;
  (void)namespace_controller_.Stop(milliseconds(0));  // stop all controllers at the same time
  (void)profile_controller_.Stop(milliseconds(0));
  if (!controller_.Stop(kStopLimit) || !namespace_controller_.Stop(seconds(1)) ||
      !profile_controller_.Stop(seconds(1))) {
    LogError("Stopped before all jobs, namespaces and profiles were reconciled");
    std::_Exit(1);  // do not release the lease while this process may still act: let it expire
  }
  recorder_.Flush(seconds(1));
  if (elector_) elector_->StopAndRelease();
  metrics_.SetLeader(false);
  leads_ = false;
  caches_.Stop();
}

Result<void> Run(const Config& config, const Presets& presets, const MainEvents& events,
                 bool release_jobs, char* const* argv) {
  const SystemClock clock;
  runtime::Metrics metrics("trainingjob");
  http::CpprestHttpClientFactory factory;
  kube::TokenSource tokens(clock, config.cluster.token, config.cluster.token_file);
  Result<Connections> connections = ConnectAll(factory, config.cluster, tokens, metrics);
  if (!connections.ok()) return connections.error();
  if (release_jobs) {
    const Result<int> released =
        ReleaseJobs(*connections->requests.kube, *connections->lease.kube, clock, config);
    if (!released.ok()) return released.error();
    LogInfo("Released the jobs", {{"installation", config.Installation()}, {"jobs", *released}});
    return {};
  }
  return Operator(config, presets, clock, metrics, *connections, events, argv).Run();
}

int Main(int argc, char** argv) {
  const CommandLine command_line = ParseCommandLine(argc, argv);
  if (command_line.done) return command_line.exit_code;
  const Result<Config> config = Finalize(command_line.options, kube::ProcessEnvironment());
  if (!config.ok()) {
    std::fprintf(stderr, "ringmaster-operator: %s\n", config.error().message.c_str());
    return 2;
  }
  const Result<Presets> presets = job::ReadPresets(config->presets);
  if (!presets.ok()) {
    std::fprintf(stderr, "ringmaster-operator: --presets: %s\n", presets.error().message.c_str());
    return 2;
  }
  if (command_line.options.print_config) {
    std::fputs(config->Text().c_str(), stdout);
    return 0;
  }
  // Use one malloc arena: most threads only wait, so an arena for each would waste memory.
  mallopt(M_ARENA_MAX, 1);
  InitLog("operator", config->log_level, config->log_format);
  const MainEvents events;
  if (Result<void> ready = http::InitializeHttpThreads(); !ready.ok()) {
    LogError("Failed to start", {{"error", ready.error().message}});
    return 1;
  }
  LogInfo("Starting", {{"version", RINGMASTER_VERSION},
                       {"server", config->cluster.server},
                       {"identity", config->identity}});
  const Result<void> ran = Run(*config, *presets, events, command_line.options.release_jobs, argv);
  if (!ran.ok()) {
    LogError(command_line.options.release_jobs ? "Failed to release the jobs" : "Failed to start",
             {{"error", ran.error().message}});
  }
  return ran.ok() ? 0 : 1;
}

}  // namespace
}  // namespace ringmaster

int main(int argc, char** argv) { return ringmaster::Main(argc, argv); }
