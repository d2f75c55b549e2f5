// The operator, put together: flags -> configuration -> objects -> run -> orderly stop. The only
// file that names concrete types; read it as the architecture. What each part does is in its
// header.

#include <cstdio>
#include <cstdlib>
#include <malloc.h>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "operator/api/codec.h"
#include "operator/api/names.h"
#include "operator/http/admin_server.h"
#include "operator/http/cpprest_http_client.h"
#include "operator/job/keyring.h"
#include "operator/job/launcher_poller.h"
#include "operator/job/reconciler.h"
#include "operator/job/views.h"
#include "operator/kube/kube_client.h"
#include "operator/kube/token_source.h"
#include "operator/main_events.h"
#include "operator/options.h"
#include "operator/runtime/access_check.h"
#include "operator/runtime/controller.h"
#include "operator/runtime/event_recorder.h"
#include "operator/runtime/leader_elector.h"
#include "operator/runtime/metrics.h"
#include "operator/runtime/reflector.h"
#include "operator/runtime/request_pool.h"
#include "operator/runtime/store.h"
#include "operator/runtime/work_queue.h"

namespace ringmaster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A thread that has not moved for so long is broken. Longer than a watch may be silent plus its
// longest back-off, and than the slowest reconcile.
constexpr seconds kUnhealthyAfter{300};
constexpr seconds kStopLimit{8};

// One use of the API server: its own connections, limit and idle time, so that none can hold up
// another.
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

// All that the operator does with the API, as deploy/install.yaml grants it.
std::vector<runtime::AccessRule> NeededRights(const Config& config) {
  std::vector<runtime::AccessRule> rules;
  const auto add = [&](const kube::Resource& resource, std::initializer_list<const char*> verbs,
                       const std::string& subresource = {}) {
    for (const char* verb : verbs) {
      rules.push_back({.verb = verb,
                       .resource = resource,
                       .subresource = subresource,
                       .ns = config.watch_namespace});
    }
  };
  add(kube::kTrainingJobs, {"list", "watch"});
  add(kube::kTrainingJobs, {"patch"}, "status");
  add(kube::kTrainingJobs, {"update"}, "finalizers");  // owner references that block deletion
  add(kube::kPods, {"get", "list", "watch", "create", "delete"});
  add(kube::kServices, {"get", "list", "watch", "create", "patch"});
  add(kube::kSecrets, {"create"});
  add(kube::kEvents, {"create", "patch"});
  rules.push_back(
      {.verb = "get", .resource = kube::kSecrets, .ns = config.ns, .name = api::kKeyringName});
  rules.push_back({.verb = "create", .resource = kube::kSecrets, .ns = config.ns});
  if (!config.leader_elect) return rules;
  rules.push_back({.verb = "create", .resource = kube::kLeases, .ns = config.ns});
  for (const char* verb : {"get", "update"}) {
    rules.push_back(
        {.verb = verb, .resource = kube::kLeases, .ns = config.ns, .name = config.lease_name});
  }
  return rules;
}

// What the operator knows of the cluster, and the watches that keep it so.
struct Caches {
  job::JobStore jobs{api::DecodeTrainingJob};
  job::PodStore pods{job::ProjectPod};
  job::ServiceStore services{job::ProjectService};
  runtime::WatchListSupport watch_list;
  std::vector<std::unique_ptr<runtime::Reflector>> reflectors;

  void Watch(kube::KubeClient& client, const Clock& clock, const Config& config,
             runtime::Metrics& metrics, const MainEvents& events) {
    const auto add = [&](const kube::Resource& resource, runtime::StoreWriter& store,
                         const char* selector) {
      runtime::ReflectorOptions options;
      options.resource = resource;
      options.ns = config.watch_namespace;
      options.label_selector = selector;
      options.on_synced = [&events] { events.Post(MainEvents::Event::kCachesFilled); };
      reflectors.push_back(std::make_unique<runtime::Reflector>(
          client, clock, store, watch_list, std::move(options), &metrics.reflector()));
    };
    add(kube::kTrainingJobs, jobs, "");
    add(kube::kPods, pods, api::kManagedBySelector);
    add(kube::kServices, services, api::kManagedBySelector);
  }

  // A job is looked at when it, or an object that it controls, changed.
  void Feed(runtime::WorkQueue& queue) {
    jobs.OnChange(
        [&queue](const kube::ObjectMeta& meta, runtime::Change) { queue.Add(meta.Key()); });
    const auto owner = [&queue](const kube::ObjectMeta& meta, runtime::Change) {
      if (meta.owner_kind == api::kKind) queue.Add(kube::ObjectKey(meta.ns, meta.owner_name));
    };
    pods.OnChange(owner);
    services.OnChange(owner);
  }

  bool Synced() const {
    for (const auto& reflector : reflectors) {
      if (!reflector->Synced()) return false;
    }
    return true;
  }

  std::string Problems() const {
    std::string problems;
    for (const auto& reflector : reflectors) {
      const std::string problem = reflector->Problem();
      if (!problem.empty()) problems += problem + "\n";
    }
    return problems;
  }

  bool Healthy() const {
    for (const auto& reflector : reflectors) {
      if (!reflector->Healthy(kUnhealthyAfter)) return false;
    }
    return true;
  }
};

http::AdminAnswer Ready(const Caches& caches, const runtime::AccessCheck& access) {
  std::string problems = caches.Problems();
  if (const std::string missing = access.Problem(); !missing.empty()) problems += missing + "\n";
  if (problems.empty() && !caches.Synced()) problems = "the caches are not filled yet\n";
  if (problems.empty() && !access.Complete()) problems = "our rights are not known yet\n";
  return problems.empty() ? http::AdminAnswer{200, "ok\n"} : http::AdminAnswer{503, problems};
}

http::AdminAnswer Healthy(const Caches& caches, const runtime::Controller& controller) {
  if (!caches.Healthy()) return {503, "a watch thread has not moved for long\n"};
  if (!controller.Healthy(kUnhealthyAfter))
    return {503, "a worker has been busy with one job for long\n"};
  return {200, "ok\n"};
}

runtime::LeaderElectorOptions ElectionOptions(const Config& config) {
  return {.ns = config.ns,
          .name = config.lease_name,
          .identity = config.identity,
          .lease_duration = config.lease_duration,
          .renew_deadline = config.renew_deadline,
          .retry_period = config.retry_period};
}

// Other operators may act from here on: nothing may be finished, nothing cleaned up.
[[noreturn]] void EndAtOnce(const std::string&) { std::_Exit(1); }

// Longer than other functions on purpose: every object in the order in which it needs the others.
Result<void> Run(const Config& config, const MainEvents& events) {
  const SystemClock clock;
  runtime::Metrics metrics("trainingjob");
  http::CpprestHttpClientFactory factory;
  kube::TokenSource tokens(clock, config.cluster.token, config.cluster.token_file);
  Result<Connection> requests = Connect(factory, config.cluster, tokens, metrics, seconds(30));
  if (!requests.ok()) return requests.error();
  // Bookmarks come about once a minute: a watch that is silent for longer has a dead peer.
  Result<Connection> watches = Connect(factory, config.cluster, tokens, metrics, seconds(150));
  if (!watches.ok()) return watches.error();
  Result<Connection> lease = Connect(factory, config.cluster, tokens, metrics, seconds(5));
  if (!lease.ok()) return lease.error();

  runtime::WorkQueue queue(clock, {}, &metrics.queue());
  metrics.WatchQueue(queue);
  Caches caches;
  caches.Feed(queue);
  caches.Watch(*watches->kube, clock, config, metrics, events);
  runtime::FreshnessGate freshness(clock);
  freshness.Watch(kube::kTrainingJobs, [&] { return caches.jobs.LastSeenVersion(); });
  freshness.Watch(kube::kPods, [&] { return caches.pods.LastSeenVersion(); });
  freshness.Watch(kube::kServices, [&] { return caches.services.LastSeenVersion(); });

  runtime::EventRecorder recorder(*requests->kube, clock, {.reporting_instance = config.instance});
  runtime::RequestPool pool;
  job::Keyring keyring(*requests->kube, clock, config.ns);
  job::LauncherPoller launchers(clock, [&queue](const std::string& job) { queue.Add(job); });
  std::unique_ptr<runtime::LeaderElector> elector;
  job::Reconciler reconciler(
      {.tools = {clock, *requests->kube, freshness, pool, recorder},
       .jobs = caches.jobs,
       .pods = caches.pods,
       .services = caches.services,
       .keyring = keyring,
       .launchers = launchers,
       .leader_transitions = [&elector] { return elector ? elector->transitions() : 0; }});
  runtime::Controller controller(
      clock, queue, freshness, [&](const std::string& key) { return reconciler.Reconcile(key); },
      {.workers = config.workers}, &metrics.controller());
  const auto lead = [&](int64_t) {
    metrics.SetLeader(true);
    recorder.Start();
    controller.Start();
  };
  if (config.leader_elect) {
    elector = std::make_unique<runtime::LeaderElector>(
        *lease->kube, clock, ElectionOptions(config),
        runtime::LeaderElector::Callbacks{.on_elected = lead, .on_lost = EndAtOnce});
  }
  runtime::AccessCheck access(*requests->kube, NeededRights(config));

  const auto admin = http::AdminServer::Start(
      config.admin_address,
      {{"/healthz", [&] { return Healthy(caches, controller); }},
       {"/readyz", [&] { return Ready(caches, access); }},
       {"/metrics", [&] {
          return http::AdminAnswer{200, metrics.Text(), "text/plain; version=0.0.4"};
        }}});
  if (!admin.ok()) return admin.error();
  access.Start();
  for (const auto& reflector : caches.reflectors) reflector->Start();

  // A standby is warm: it has seen everything before it asks for the lease.
  bool campaigning = false;
  while (events.Wait() != MainEvents::Event::kStop) {
    if (campaigning || !caches.Synced()) continue;
    campaigning = true;
    malloc_trim(0);  // the first lists are read: give back what that took
    if (elector) {
      elector->Start();
    } else {
      lead(0);
    }
  }

  LogInfo("Stopping");
  if (!controller.Stop(kStopLimit)) {
    LogError("Jobs were still in progress when the time to stop was over");
    EndAtOnce({});  // the lease expires by itself: it must not be released while we may still act
  }
  recorder.Flush(seconds(1));
  if (elector) elector->StopAndRelease();
  metrics.SetLeader(false);
  for (const auto& reflector : caches.reflectors) reflector->Stop();
  return {};
}

int Main(int argc, char** argv) {
  const CommandLine command_line = ParseCommandLine(argc, argv);
  if (command_line.done) return command_line.exit_code;
  const Result<Config> config = Finalize(command_line.options, kube::ProcessEnvironment());
  if (!config.ok()) {
    std::fprintf(stderr, "ringmaster-operator: %s\n", config.error().message.c_str());
    return 2;
  }
  if (command_line.options.print_config) {
    std::fputs(config->Text().c_str(), stdout);
    return 0;
  }
  // Sixty threads that mostly wait would otherwise each keep a heap of their own.
  mallopt(M_ARENA_MAX, 2);
  InitLog("operator", config->log_level, config->log_format);
  const MainEvents events;
  if (Result<void> ready = http::InitializeHttpThreads(); !ready.ok()) {
    LogError("Could not start", {{"error", ready.error().message}});
    return 1;
  }
  LogInfo("Starting", {{"version", RINGMASTER_VERSION},
                       {"server", config->cluster.server},
                       {"identity", config->identity}});
  const Result<void> ran = Run(*config, events);
  if (!ran.ok()) LogError("Could not start", {{"error", ran.error().message}});
  return ran.ok() ? 0 : 1;
}

}  // namespace
}  // namespace ringmaster

int main(int argc, char** argv) { return ringmaster::Main(argc, argv); }
