#include "bench/creation.h"

#include <algorithm>
#include <atomic>
#include <iostream>
#include <set>
#include <thread>

#include "bench/kubeconfig_endpoint.h"
#include "common/base/mutex.h"
#include "tests/integration/harness/control_plane.h"
#include "tests/paths.h"

namespace ringmaster::bench {
namespace {

using nlohmann::json;
using std::chrono::steady_clock;

constexpr char kSystemNs[] = "ringmaster-system";
constexpr char kAccount[] = "ringmaster-operator";
constexpr std::chrono::minutes kLimit(2);

// Watches a namespace's Pods from construction on, and waits for `count` distinct new Pods whose
// name contains `part`.
class PodCounter {
 public:
  PodCounter(testing::ApiClient& client, const std::string& path, std::string part)
      : part_(std::move(part)) {
    const testing::Response list = client.Get(path + "?limit=1");
    const std::string version = testing::TextAt(list.body, "/metadata/resourceVersion");
    thread_ = std::jthread([this, &client, path, version](std::stop_token stop) {
      version_ = version;
      while (!stop.stop_requested()) {
        client.Watch(path + "?watch=true&resourceVersion=" + version_, stop,
                     [this](const json& event) {
                       Count(event);
                       return true;
                     });
        if (!stop.stop_requested()) std::cout << "resuming the observer's watch" << std::endl;
      }
    });
  }

  bool WaitFor(std::size_t count) {
    return testing::WaitUntil(
        [&] {
          const MutexLock lock(mutex_);
          return names_.size() >= count;
        },
        kLimit);
  }
  std::size_t Seen() {
    const MutexLock lock(mutex_);
    return names_.size();
  }
  Creation Since(steady_clock::time_point begin) {
    const MutexLock lock(mutex_);
    Creation creation = pause_;
    creation.took = last_ - begin;
    return creation;
  }

 private:
  void Count(const json& event) {
    if (const std::string version = testing::TextAt(event, "/object/metadata/resourceVersion");
        !version.empty())
      version_ = version;
    if (testing::TextAt(event, "/type") != "ADDED") return;
    const std::string name = testing::TextAt(event, "/object/metadata/name");
    const auto now = steady_clock::now();
    const MutexLock lock(mutex_);
    if (name.find(part_) == std::string::npos || !names_.insert(name).second) return;
    if (now - last_ > pause_.longest_pause) {
      pause_.longest_pause = now - last_;
      pause_.pods_before_pause = names_.size() - 1;
    }
    last_ = now;
  }

  const std::string part_;
  std::string version_;  // the watch's newest resourceVersion; used only by its thread
  Mutex mutex_;
  std::set<std::string> names_ RINGMASTER_GUARDED_BY(mutex_);
  steady_clock::time_point last_ RINGMASTER_GUARDED_BY(mutex_) = steady_clock::now();
  Creation pause_ RINGMASTER_GUARDED_BY(mutex_);
  std::jthread thread_;
};

Error Failure(const std::string& what, const testing::Response& response) {
  return {ErrorKind::kInternal,
          what + ": " + std::to_string(response.status) + " " + response.Text()};
}

}  // namespace

void InParallel(int threads, int count, const std::function<void(int)>& work) {
  std::atomic<int> next{0};
  std::vector<std::jthread> running;
  for (int i = 0; i < threads; ++i) {
    running.emplace_back([&] {
      for (int index; (index = next++) < count;) work(index);
    });
  }
}

Result<void> PutDefaultProfile(testing::ApiClient& admin,
                               const std::vector<std::string>& namespaces) {
  const json toleration = {
      {"key", "nvidia.com/gpu"}, {"operator", "Exists"}, {"effect", "NoSchedule"}};
  const json profile = {
      {"apiVersion", "ringmaster.dev/v1alpha1"},
      {"kind", "TrainingProfile"},
      {"metadata", {{"name", "bench"}, {"namespace", kSystemNs}}},
      {"spec",
       {{"namespaces", namespaces},
        {"default", true},
        {"limits", {{"workers", 10000}, {"gpus", 80000}}},
        {"workload",
         {{"worker",
           {{"tolerations", json::array({toleration})},
            {"env", json::array({{{"name", "NCCL_DEBUG"}, {"value", "WARN"}}})}}}}},
        {"overridable", {"worker.env"}}}}};
  const std::string path = std::string("/apis/ringmaster.dev/v1alpha1/namespaces/") + kSystemNs +
                           "/trainingprofiles/bench?fieldManager=bench&force=true";
  testing::Response put;
  const bool done = testing::WaitUntil([&] {  // the API server may not serve the CRD yet
    put = admin.Send("PATCH", path, profile.dump(), "application/apply-patch+yaml");
    return put.ok();
  });
  if (!done) return Failure("creating the profile of the jobs", put);
  return {};
}

Result<std::unique_ptr<CreationBench>> CreationBench::Start(const CreationOptions& options) {
  std::unique_ptr<CreationBench> bench(new CreationBench);
  bench->options_ = options;
  if (auto prepared = bench->Prepare(); !prepared.ok()) return prepared.error();
  return bench;
}

Result<void> CreationBench::Prepare() {
  auto endpoint = EndpointOf(options_.kubeconfig, directory_.path());
  if (!endpoint.ok()) return endpoint.error();
  endpoint_ = *endpoint;
  admin_ = std::make_unique<testing::ApiClient>(endpoint_);
  const std::string kubectl = testing::KubernetesPrograms() / "kubectl";
  const testing::CommandOutput applied =
      testing::RunCommand({kubectl, "--kubeconfig=" + options_.kubeconfig, "apply", "--server-side",
                           "-f", FromBuild(RINGMASTER_SOURCE_DIR "/deploy/install.yaml")});
  if (applied.status != 0) return Error{ErrorKind::kInternal, applied.text};
  // The operator runs as a process on this machine, so remove the Deployment.
  admin_->Delete(std::string("/apis/apps/v1/namespaces/") + kSystemNs +
                 "/deployments/ringmaster-operator");
  for (const char* ns : {kOperatorNs, kBareNs, kOtherNs}) {
    admin_->Post("/api/v1/namespaces", {{"metadata", {{"name", ns}}}});
    const std::string core = std::string("/api/v1/namespaces/") + ns;
    const bool account =
        testing::WaitUntil([&] { return admin_->Get(core + "/serviceaccounts/default").ok(); });
    if (!account) return Error{ErrorKind::kTimeout, "no ServiceAccount in " + std::string(ns)};
    admin_->Post(core + "/configmaps", {{"metadata", {{"name", "owner"}}}});
    owner_uids_[ns] =
        testing::TextAt(admin_->Get(core + "/configmaps/owner").body, "/metadata/uid");
  }
  if (auto put = PutDefaultProfile(*admin_, {kOperatorNs, kOtherNs}); !put.ok()) return put;
  return PrepareProxy();
}

Result<void> CreationBench::PrepareProxy() {
  const std::string pki = directory_.path().string() + "/";
  const testing::CommandOutput certificate = testing::RunCommand(
      {"sh", "-c",
       "cd " + pki +
           " && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "
           "proxy.key -subj /CN=proxy -addext subjectAltName=IP:127.0.0.1 -days 2 -out proxy.crt"});
  if (certificate.status != 0) return Error{ErrorKind::kInternal, certificate.text};
  auto proxy = testing::FaultProxy::Start(endpoint_, pki + "proxy.crt", pki + "proxy.key");
  if (!proxy.ok()) return proxy.error();
  proxy_ = std::move(*proxy);
  // The proxy forwards credentials unchanged, so an admin client that uses it needs a token.
  const std::string account = "bench-admin";
  admin_->Post("/api/v1/namespaces/default/serviceaccounts", {{"metadata", {{"name", account}}}});
  const json subject = {{"kind", "ServiceAccount"}, {"name", account}, {"namespace", "default"}};
  admin_->Post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
               {{"metadata", {{"name", account}}},
                {"subjects", json::array({subject})},
                {"roleRef",
                 {{"apiGroup", "rbac.authorization.k8s.io"},
                  {"kind", "ClusterRole"},
                  {"name", "cluster-admin"}}}});
  auto token = Token("default", account);
  if (!token.ok()) return token.error();
  testing::Endpoint behind;
  behind.port = proxy_->port();
  behind.ca_file = pki + "proxy.crt";
  behind.token = *token;
  proxied_ = std::make_unique<testing::ApiClient>(behind);
  return {};
}

Result<std::string> CreationBench::Token(const std::string& ns, const std::string& account) {
  const testing::Response token =
      admin_->Post("/api/v1/namespaces/" + ns + "/serviceaccounts/" + account + "/token",
                   {{"apiVersion", "authentication.k8s.io/v1"},
                    {"kind", "TokenRequest"},
                    {"spec", {{"expirationSeconds", 36000}}}});
  if (!token.ok()) return Failure("requesting a token for " + account, token);
  return testing::TextAt(token.body, "/status/token");
}

Result<void> CreationBench::StartOperator(bool through_proxy) {
  operator_.reset();
  auto token = Token(kSystemNs, kAccount);
  if (!token.ok()) return token.error();
  testing::OperatorOptions options;
  options.program = options_.program;
  options.ns = kSystemNs;
  options.api.token = *token;
  options.api.address = through_proxy ? "127.0.0.1" : endpoint_.address;
  options.api.port = through_proxy ? proxy_->port() : endpoint_.port;
  options.api.ca_file =
      through_proxy ? (directory_.path() / "proxy.crt").string() : endpoint_.ca_file;
  options.log_level = "info";
  options.flags = options_.flags;
  auto started = testing::OperatorProcess::Start(options);
  if (!started.ok()) return started.error();
  operator_ = std::move(*started);
  if (!operator_->WaitReady() || !operator_->WaitLeading()) {
    return Error{ErrorKind::kTimeout, "the operator does not become ready: " + operator_->Log()};
  }
  return {};
}

json CreationBench::Job(const std::string& ns, const std::string& name, int replicas) const {
  const json toleration = {{"key", "kwok"}, {"operator", "Exists"}};
  const json pod = {{"spec", {{"tolerations", json::array({toleration})}}}};
  return {{"apiVersion", "ringmaster.dev/v1alpha1"},
          {"kind", "TrainingJob"},
          {"metadata", {{"name", name}, {"namespace", ns}}},
          {"spec",
           {{"image", "registry.example.com/ringmaster-worker:bench"},
            {"command", {"ringmaster-train", "--workload=mnist"}},
            {"worker", {{"replicas", replicas}, {"template", pod}}},
            {"launcher", {{"template", pod}}}}}};
}

Result<void> CreationBench::CapturePodRequest() {
  if (auto started = StartOperator(true); !started.ok()) return started;
  const testing::Response created =
      admin_->Post(JobsPath(kOperatorNs), Job(kOperatorNs, "capture", 1));
  if (!created.ok()) return Failure("creating a job", created);
  const std::string path = PodsPath(kOperatorNs);
  const bool captured = testing::WaitUntil([&] {
    for (const testing::ProxiedRequest& write : proxy_->Writes()) {
      if (write.method != "POST" || write.Path() != path || write.status != 201) continue;
      pod_ = json::parse(write.body);
      pod_query_ = write.target.substr(path.size());
      if (testing::TextAt(pod_, "/metadata/name") == "capture-worker-0") return true;
    }
    return false;
  });
  if (!captured)
    return Error{ErrorKind::kTimeout, "the operator does not create Pods: " + operator_->Log()};
  return Clear(kOperatorNs);
}

json CreationBench::Pod(const std::string& ns, const std::string& name) const {
  json pod = pod_;
  pod["metadata"]["name"] = name;
  pod["metadata"]["namespace"] = ns;
  json& owner = pod["metadata"]["ownerReferences"][0];
  owner["apiVersion"] = "v1";
  owner["kind"] = "ConfigMap";
  owner["name"] = "owner";
  owner["uid"] = owner_uids_.at(ns);
  return pod;
}

Result<Creation> CreationBench::OperatorCreates(int count) {
  PodCounter counter(*admin_, PodsPath(kOperatorNs), "-worker-");
  const auto begin = steady_clock::now();
  const testing::Response created =
      admin_->Post(JobsPath(kOperatorNs), Job(kOperatorNs, "big", count));
  if (!created.ok()) return Failure("creating a job", created);
  if (!counter.WaitFor(static_cast<std::size_t>(count))) {
    return Error{ErrorKind::kTimeout, "the operator created only " +
                                          std::to_string(counter.Seen()) +
                                          " Pods: " + operator_->Log().substr(0, 4000)};
  }
  return counter.Since(begin);
}

Result<Creation> CreationBench::BareClientCreates(int count) {
  std::vector<std::string> bodies;
  for (int i = 0; i < count; ++i)
    bodies.push_back(Pod(kBareNs, "big-worker-" + std::to_string(i)).dump());
  PodCounter counter(*admin_, PodsPath(kBareNs), "-worker-");
  const auto begin = steady_clock::now();
  std::atomic<int> refused{0};
  InParallel(kParallel, count, [&](int i) {
    const auto body = bodies[static_cast<std::size_t>(i)];
    if (!admin_->Send("POST", PodsPath(kBareNs) + pod_query_, body).ok()) ++refused;
  });
  if (refused > 0)
    return Error{ErrorKind::kInternal,
                 std::to_string(refused) + " Pods of the bare client were rejected"};
  if (!counter.WaitFor(static_cast<std::size_t>(count)))
    return Error{ErrorKind::kTimeout, "Pods of the bare client are missing"};
  return counter.Since(begin);
}

Result<void> CreationBench::Clear(const std::string& ns) {
  const auto empty = [this](const std::string& path) {
    const testing::Response list = admin_->Get(path + "?limit=1");
    return list.ok() && list.body.at("items").empty();
  };
  admin_->Delete(JobsPath(ns));
  if (!testing::WaitUntil([&] { return empty(JobsPath(ns)); }, kLimit)) {
    return Error{ErrorKind::kTimeout, "jobs stay in " + ns};
  }
  admin_->Delete(PodsPath(ns),
                 {{"kind", "DeleteOptions"}, {"apiVersion", "v1"}, {"gracePeriodSeconds", 0}});
  if (!testing::WaitUntil([&] { return empty(PodsPath(ns)); }, kLimit)) {
    return Error{ErrorKind::kTimeout, "Pods stay in " + ns};
  }
  // Wait here, so that the next run need not wait: the garbage collector deletes the Services, and
  // it discovers a new kind of owner only half a minute after the CRD was created.
  if (!testing::WaitUntil([&] { return empty("/api/v1/namespaces/" + ns + "/services"); },
                          kLimit)) {
    return Error{ErrorKind::kTimeout, "Services stay in " + ns};
  }
  return {};
}

}  // namespace ringmaster::bench
