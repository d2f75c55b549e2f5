#include "bench/played_jobs.h"

#include <thread>
#include <utility>

#include "bench/creation.h"

namespace ringmaster::bench {

using nlohmann::json;

Result<std::unique_ptr<testing::ControlPlane>> StartControlPlane() {
  auto plane = testing::ControlPlane::Start();
  if (!plane.ok()) return plane.error();
  if (auto installed = (*plane)->Install(); !installed.ok()) return installed.error();
  testing::ApiClient admin((*plane)->AdminEndpoint());
  if (auto put = PutDefaultProfile(admin, {"*"}); !put.ok()) return put.error();
  return plane;
}

Result<std::unique_ptr<testing::OperatorProcess>> StartOperator(const testing::ControlPlane& plane,
                                                                const std::string& program,
                                                                const std::string& identity,
                                                                std::vector<std::string> flags) {
  auto token = plane.ServiceAccountToken("ringmaster-system", "ringmaster-operator");
  if (!token.ok()) return token.error();
  testing::OperatorOptions options;
  options.program = program;
  options.api = plane.TokenEndpoint(*token);
  options.identity = identity;
  options.log_level = "info";
  options.flags = std::move(flags);
  auto op = testing::OperatorProcess::Start(options);
  if (op.ok() && !(*op)->WaitReady())
    return Error{ErrorKind::kTimeout, "the operator does not become ready: " + (*op)->Log()};
  return op;
}

std::string JobsPath(const std::string& ns) {
  return "/apis/ringmaster.dev/v1alpha1/namespaces/" + ns + "/trainingjobs";
}

Result<void> PostJob(testing::ApiClient& admin, const std::string& ns, const std::string& name,
                     int workers) {
  const testing::Response made =
      admin.Post(JobsPath(ns), {{"apiVersion", "ringmaster.dev/v1alpha1"},
                                {"kind", "TrainingJob"},
                                {"metadata", {{"name", name}}},
                                {"spec",
                                 {{"image", "example.com/worker"},
                                  {"command", {"ringmaster-train"}},
                                  {"worker", {{"replicas", workers}}}}}});
  if (!made.ok()) return Error{ErrorKind::kInternal, made.Text()};
  return {};
}

Result<void> RunJobs(testing::ApiClient& admin, const std::string& ns, int jobs, int workers) {
  for (int i = 0; i < jobs; ++i) {
    if (auto made = PostJob(admin, ns, "job-" + std::to_string(i), workers); !made.ok())
      return made;
  }
  const bool running = testing::WaitUntil(
      [&] {
        int count = 0;
        const testing::Response all = admin.Get(JobsPath(ns));
        if (!all.ok()) return false;
        for (const json& job : all.body.at("items")) {
          count += job.contains("status") && job["status"].value("state", "") == "Running" ? 1 : 0;
        }
        std::this_thread::sleep_for(std::chrono::seconds(1));
        return count == jobs;
      },
      std::chrono::minutes(8));
  if (!running) return Error{ErrorKind::kTimeout, "not all jobs are running"};
  return {};
}

}  // namespace ringmaster::bench
