#include "tests/integration/harness/prometheus_server.h"

#include "tests/integration/harness/control_plane.h"
#include "tests/integration/harness/plain_http.h"

namespace ringmaster::testing {

using nlohmann::json;

Result<std::unique_ptr<PrometheusServer>> PrometheusServer::Start(int target_port,
                                                                  const std::string& rule_file,
                                                                  const std::string& token) {
  const std::filesystem::path program = KubernetesPrograms() / "prometheus";
  if (!std::filesystem::exists(program)) {
    return Error{ErrorKind::kNotFound, "no Prometheus: run deploy/local/build.sh prometheus"};
  }
  std::unique_ptr<PrometheusServer> started(new PrometheusServer);
  const std::filesystem::path directory = started->directory_.path();
  json scrape{{"job_name", "operator"},
              {"scheme", "https"},
              {"tls_config", {{"insecure_skip_verify", true}}},
              {"static_configs", {{{"targets", {"127.0.0.1:" + std::to_string(target_port)}}}}}};
  if (!token.empty()) scrape["authorization"] = {{"credentials", token}};
  const json config{
      {"global",
       {{"scrape_interval", "1s"}, {"scrape_timeout", "1s"}, {"evaluation_interval", "1s"}}},
      {"rule_files", {rule_file}},
      {"scrape_configs", json::array({scrape})}};
  WriteFile(directory / "prometheus.yml", config.dump());  // JSON is YAML
  started->port_ = FreePort();
  ProcessOptions options;
  options.argv = {program, "--config.file=" + (directory / "prometheus.yml").string(),
                  "--storage.tsdb.path=" + (directory / "data").string(),
                  "--web.listen-address=127.0.0.1:" + std::to_string(started->port_)};
  options.log = directory / "log";
  auto process = Process::Start(options);
  if (!process.ok()) return process.error();
  started->process_ = std::move(*process);
  const bool ready = WaitUntil(
      [&] {
        return !started->process_->Running() || PlainGet(started->port_, "/-/ready").status == 200;
      },
      std::chrono::seconds(60));
  if (!ready || !started->process_->Running()) {
    return Error{ErrorKind::kUnavailable, "Prometheus did not start: " + started->Log()};
  }
  return started;
}

json PrometheusServer::Get(const std::string& path) const {
  const json answer = json::parse(PlainGet(port_, "/api/v1/" + path).text, nullptr, false);
  if (!answer.is_object() || answer.value("status", "") != "success") return nullptr;
  return answer["data"];
}

std::string PrometheusServer::Refusal(const std::string& path) const {
  const PlainAnswer answer = PlainGet(port_, "/api/v1/" + path);
  const json body = json::parse(answer.text, nullptr, false);
  if (body.is_object() && body.value("status", "") == "success") return {};
  return answer.text.empty() ? "no answer" : answer.text;
}

json PrometheusServer::Query(const std::string& expression) const {
  const json data = Get("query?query=" + PercentEncode(expression));
  return data.is_object() ? data["result"] : json(nullptr);
}

}  // namespace ringmaster::testing
