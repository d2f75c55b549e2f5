#include "tests/integration/cluster_test.h"

#include <algorithm>
#include <utility>

#include "tests/paths.h"

namespace ringmaster::testing {
namespace {

// Starts the control plane once for the whole program. gtest owns this object.
class ClusterEnvironment : public ::testing::Environment {
 public:
  void SetUp() override {
    auto plane = ControlPlane::Start();
    ASSERT_TRUE(plane.ok()) << plane.error().message;
    plane_ = std::move(*plane);
    const auto installed = plane_->Install();
    ASSERT_TRUE(installed.ok()) << installed.error().message;
  }
  void TearDown() override { plane_.reset(); }
  ControlPlane* plane() { return plane_.get(); }

 private:
  std::unique_ptr<ControlPlane> plane_;
};

ClusterEnvironment* const kEnvironment =
    static_cast<ClusterEnvironment*>(::testing::AddGlobalTestEnvironment(new ClusterEnvironment));

std::string LastLines(const std::string& text, std::size_t bytes = 6000) {
  return text.size() <= bytes ? text : text.substr(text.size() - bytes);
}

}  // namespace

json JobManifest(const std::string& ns, const std::string& name, int replicas) {
  return {{"apiVersion", "ringmaster.dev/v1alpha1"},
          {"kind", "TrainingJob"},
          {"metadata", {{"name", name}, {"namespace", ns}}},
          {"spec",
           {{"image", "registry.example.com/ringmaster-worker:test"},
            {"command", {"ringmaster-train", "--workload=mnist"}},
            {"worker", {{"replicas", replicas}}}}}};
}

int ClusterTest::next_namespace_ = 0;

ClusterTest::ClusterTest() = default;
ClusterTest::~ClusterTest() = default;

ControlPlane& ClusterTest::plane() { return *kEnvironment->plane(); }

void ClusterTest::SetUp() {
  ASSERT_NE(kEnvironment->plane(), nullptr);
  admin_ = std::make_unique<ApiClient>(plane().AdminEndpoint());
  ns_ = "team-" + std::to_string(++next_namespace_);
  const auto made = plane().MakeNamespace(ns_);
  ASSERT_TRUE(made.ok()) << made.error().message;
  auto proxy = FaultProxy::Start(plane().AdminEndpoint(), plane().pki() / "server.crt",
                                 plane().pki() / "server.key");
  ASSERT_TRUE(proxy.ok()) << proxy.error().message;
  proxy_ = std::move(*proxy);
}

void ClusterTest::TearDown() {
  // Delete this test's jobs, so that they do not keep a later test's operator busy.
  if (admin_ != nullptr)
    admin().SendForTable("DELETE",
                         "/apis/ringmaster.dev/v1alpha1/namespaces/" + ns_ + "/trainingjobs");
  if (operator_ != nullptr) {
    const bool running = operator_->process().Running();
    const int status = operator_->Stop();
    if (running) {
      EXPECT_EQ(status, 0) << "the operator's end:\n" << LastLines(operator_->Log(), 3000);
    }
  }
  operator_.reset();
  kubelet_.reset();
  proxy_.reset();
}

void ClusterTest::LaunchOperator(std::vector<std::string> flags, const std::string& account,
                                 bool asks_for_tokens) {
  operator_.reset();
  // Release a killed operator's Lease, so that the next operator does not wait until it expires.
  admin().MergePatch(std::string("/apis/coordination.k8s.io/v1/namespaces/") + kOperatorNamespace +
                         "/leases/ringmaster-operator",
                     {{"spec", {{"holderIdentity", ""}}}});
  auto started =
      NewOperator({.flags = std::move(flags), .metrics_authorization = asks_for_tokens}, account);
  ASSERT_TRUE(started.ok()) << started.error().message;
  operator_ = std::move(*started);
}

Result<std::unique_ptr<OperatorProcess>> ClusterTest::NewOperator(OperatorOptions options,
                                                                  const std::string& account) {
  auto token = plane().ServiceAccountToken(kOperatorNamespace, account);
  if (!token.ok()) return token.error();
  options.program = FromBuild(RINGMASTER_OPERATOR_PROGRAM);
  options.api = plane().TokenEndpoint(*token);
  options.api.port = proxy_->port();
  options.ns = kOperatorNamespace;
  return OperatorProcess::Start(options);
}

void ClusterTest::StartOperatorThatAsksForTokens() {
  ASSERT_NO_FATAL_FAILURE(LaunchOperator(kPatientLease, kOperatorAccount, true));
  ASSERT_TRUE(operator_->WaitReady()) << LastLines(operator_->Log());
}

void ClusterTest::StartOperator(std::vector<std::string> flags) {
  ASSERT_NO_FATAL_FAILURE(LaunchOperator(std::move(flags)));
  ASSERT_TRUE(operator_->WaitReady()) << LastLines(operator_->Log());
}

std::unique_ptr<OperatorProcess> ClusterTest::AnotherOperator(const std::string& identity,
                                                              std::vector<std::string> flags) {
  auto started = NewOperator({.identity = identity, .flags = std::move(flags)}, kOperatorAccount);
  return started.ok() ? std::move(*started) : nullptr;
}

std::string ClusterTest::TokenOf(const std::string& account, bool reads_metrics) {
  EXPECT_TRUE(admin()
                  .Post("/api/v1/namespaces/" + ns_ + "/serviceaccounts",
                        {{"metadata", {{"name", account}}}})
                  .ok());
  if (reads_metrics) {
    const json subject = {{"kind", "ServiceAccount"}, {"name", account}, {"namespace", ns_}};
    const json binding = {{"metadata", {{"name", ns_ + "-" + account}}},
                          {"subjects", json::array({subject})},
                          {"roleRef",
                           {{"apiGroup", "rbac.authorization.k8s.io"},
                            {"kind", "ClusterRole"},
                            {"name", "ringmaster-metrics-reader"}}}};
    EXPECT_TRUE(
        admin().Post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding).ok());
  }
  const auto token = plane().ServiceAccountToken(ns_, account);
  EXPECT_TRUE(token.ok());
  return token.ok() ? *token : std::string();
}

void ClusterTest::StartKubelet() { kubelet_ = std::make_unique<FakeKubelet>(admin(), ns_); }

std::string ClusterTest::Path(const std::string& plural, const std::string& name) const {
  return "/api/v1/namespaces/" + ns_ + "/" + plural + (name.empty() ? "" : "/" + name);
}

std::string ClusterTest::JobPath(const std::string& name) const {
  return "/apis/ringmaster.dev/v1alpha1/namespaces/" + ns_ + "/trainingjobs/" + name;
}

void ClusterTest::CreateJob(const json& manifest) {
  const Response created = admin().Post(
      "/apis/ringmaster.dev/v1alpha1/namespaces/" + ns_ + "/trainingjobs?fieldValidation=Strict",
      manifest);
  ASSERT_EQ(created.status, 201) << created.Text();
}

std::string ClusterTest::ProfilePath(const std::string& ns, const std::string& name) {
  return "/apis/ringmaster.dev/v1alpha1/namespaces/" + ns + "/trainingprofiles" +
         (name.empty() ? "" : "/" + name);
}

void ClusterTest::PutProfile(const std::string& name, json spec) {
  if (!spec.contains("namespaces")) spec["namespaces"] = json::array({ns_});
  const Response put =
      admin().Send("PATCH", ProfilePath(kOperatorNamespace, name) + "?fieldManager=test&force=true",
                   json{{"apiVersion", "ringmaster.dev/v1alpha1"},
                        {"kind", "TrainingProfile"},
                        {"metadata", {{"name", name}}},
                        {"spec", std::move(spec)}}
                       .dump(),
                   "application/apply-patch+yaml");
  ASSERT_TRUE(put.ok()) << put.Text();
}

json ClusterTest::Job(const std::string& name) { return admin().Get(JobPath(name)).body; }

json ClusterTest::Condition(const std::string& name, const std::string& type) {
  for (const json& condition : At(Job(name), "/status/conditions")) {
    if (TextAt(condition, "/type") == type) return condition;
  }
  return json();
}

std::map<std::string, json> ClusterTest::List(const std::string& plural) {
  std::map<std::string, json> objects;
  for (const json& item : At(admin().Get(Path(plural)).body, "/items")) {
    objects[TextAt(item, "/metadata/name")] = item;
  }
  return objects;
}

std::vector<std::string> ClusterTest::Names(const std::string& plural) {
  return admin().Names(Path(plural));
}

std::vector<json> ClusterTest::Events(const std::string& reason) {
  std::vector<json> events;
  const Response all = admin().Get("/apis/events.k8s.io/v1/namespaces/" + ns_ + "/events");
  for (const json& event : At(all.body, "/items")) {
    if (TextAt(event, "/reason") == reason) events.push_back(event);
  }
  return events;
}

void ClusterTest::WaitFor(const std::string& what, const std::function<bool()>& condition,
                          std::chrono::milliseconds limit) {
  if (WaitUntil(condition, limit)) return;
  std::string jobs;
  const Response all =
      admin().Get("/apis/ringmaster.dev/v1alpha1/namespaces/" + ns_ + "/trainingjobs");
  for (const json& job : At(all.body, "/items")) jobs += At(job, "/status").dump(1) + "\n";
  std::string pods;
  for (const auto& [name, pod] : List("pods")) {
    pods += name + " " + TextAt(pod, "/status/phase") + " " + TextAt(pod, "/status/podIP") + " " +
            TextAt(pod, "/metadata/deletionTimestamp") + "\n";
  }
  FAIL() << "timed out waiting for: " << what << "\nstatus: " << jobs << "\nPods:\n"
         << pods << "\noperator: " << (operator_ ? LastLines(operator_->Log()) : "none");
}

void ClusterTest::WaitCondition(const std::string& job, const std::string& type,
                                const std::string& status, const std::string& reason) {
  WaitFor(job + " " + type + "=" + status + " " + reason, [&] {
    const json condition = Condition(job, type);
    return TextAt(condition, "/status") == status &&
           (reason.empty() || TextAt(condition, "/reason") == reason);
  });
}

void ClusterTest::RunJob(const std::string& name, int replicas) {
  if (kubelet_ == nullptr) StartKubelet();
  ASSERT_NO_FATAL_FAILURE(CreateJob(name, replicas));
  ASSERT_NO_FATAL_FAILURE(WaitCondition(name, "Running", "True"));
  // Wait for both, because the fake launcher also reports workers whose Pods have not started.
  WaitFor("all Pods to run, and all workers to be members", [&] {
    const auto pods = List("pods");
    const json workers = At(Job(name), "/status/workers");
    return static_cast<int>(pods.size()) > replicas &&
           std::all_of(
               pods.begin(), pods.end(),
               [](const auto& pod) { return !TextAt(pod.second, "/status/podIP").empty(); }) &&
           workers.is_object() && workers.value("ready", 0) == replicas &&
           workers.value("members", 0) == replicas;
  });
}

control::Verdict ClusterTest::Success(int world_size) {
  control::Verdict verdict;
  verdict.succeeded = true;
  verdict.epoch = {1, 1};
  verdict.world_size = world_size;
  verdict.clean_exits = world_size;
  control::Progress progress;
  progress.step = 100;
  progress.total_steps = 100;
  progress.loss = 0.03125;
  progress.accuracy = 0.975;
  verdict.progress = progress;
  return verdict;
}

void ClusterTest::FinishJob(const std::string& name, const control::Verdict& verdict,
                            int64_t term) {
  const Response ended =
      kubelet().Terminate(name + "-launcher-" + std::to_string(term), verdict.succeeded ? 0 : 1,
                          control::EncodeVerdict(verdict));
  ASSERT_TRUE(ended.ok()) << ended.Text();
}

void ClusterTest::HoldBackPods() {
  proxy().SetPolicy([](const ProxiedRequest& request) {
    return request.method == "GET" && request.Path() == "/api/v1/pods"
               ? Answer(503, "ServiceUnavailable")
               : Pass();
  });
  proxy().CutWatches();
}

int64_t ClusterTest::RefusedDeletes(const std::string& pod) {
  const std::vector<ProxiedRequest> writes = proxy().Writes();
  return std::count_if(writes.begin(), writes.end(), [&](const ProxiedRequest& write) {
    return write.method == "DELETE" && write.Path().ends_with("/" + pod) && write.status == 409;
  });
}

}  // namespace ringmaster::testing
