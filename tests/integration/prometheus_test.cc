// Tests the operator's metrics and deploy/monitoring/ with a real Prometheus: every expression of
// the dashboard and the rules must be valid, and the operator must export every metric and label in
// the expressions.

#include <fstream>
#include <map>
#include <optional>
#include <regex>
#include <set>

#include <gtest/gtest.h>

#include "tests/integration/cluster_test.h"
#include "tests/integration/harness/plain_http.h"
#include "tests/integration/harness/prometheus_server.h"
#include "tests/paths.h"

namespace ringmaster::testing {
namespace {

const std::string kRules =
    FromBuild(RINGMASTER_SOURCE_DIR "/deploy/monitoring/ringmaster.rules.yaml");
const std::string kDashboard =
    FromBuild(RINGMASTER_SOURCE_DIR "/deploy/monitoring/ringmaster.dashboard.json");

// Metrics of failures, which a healthy operator does not export.
const std::set<std::string> kMayBeMissing = {"ringmaster_watch_failures_total"};

struct Expression {
  std::string where;  // name of the panel or rule, for messages
  std::string text;
};

std::string ReplaceAll(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

// Returns the dashboard's expressions, with Grafana's variables replaced by values.
std::vector<Expression> OfDashboard(const json& dashboard) {
  std::vector<Expression> found;
  for (const json& panel : dashboard.at("panels")) {
    if (panel.at("type") == "row") continue;
    for (const json& target : panel.at("targets")) {
      std::string text = target.at("expr").get<std::string>();
      text = ReplaceAll(text, "$__rate_interval", "1m");
      text = ReplaceAll(text, "$job_namespace", ".*");
      found.push_back({"panel " + panel.at("title").get<std::string>(), text});
    }
  }
  return found;
}

// Returns the expressions of the rules that Prometheus has loaded.
std::vector<Expression> OfRules(const json& groups) {
  std::vector<Expression> found;
  for (const json& group : groups) {
    for (const json& rule : group.at("rules")) {
      found.push_back(
          {"rule " + rule.at("name").get<std::string>(), rule.at("query").get<std::string>()});
    }
  }
  return found;
}

// Collects the vector selectors of a parsed expression: metric names and the labels they use.
void CollectSelectors(const json& node, std::map<std::string, std::set<std::string>>& selectors) {
  if (node.is_array()) {
    for (const json& child : node) CollectSelectors(child, selectors);
  }
  if (!node.is_object()) return;
  const std::string type = node.value("type", "");
  if (type == "vectorSelector" || type == "matrixSelector") {
    std::set<std::string>& labels = selectors[node.value("name", "")];
    for (const json& matcher : node.at("matchers")) {
      if (matcher.at("name") != "__name__") labels.insert(matcher.at("name").get<std::string>());
    }
    return;
  }
  for (const auto& [key, child] : node.items()) {
    if (child.is_structured()) CollectSelectors(child, selectors);
  }
}

class PrometheusTest : public ClusterTest {
 protected:
  void StartPrometheus(const std::string& token = {}) {
    auto started = PrometheusServer::Start(op().metrics_port(), kRules, token);
    ASSERT_TRUE(started.ok()) << started.error().message;
    prometheus_ = *std::move(started);
  }
  const PrometheusServer& prometheus() const { return *prometheus_; }

  // Returns the value of a query whose result is a single sample; nullopt for other results.
  std::optional<double> Value(const std::string& expression) const {
    const json samples = prometheus().Query(expression);
    if (!samples.is_array() || samples.size() != 1) return std::nullopt;
    return std::stod(samples[0].at("value").at(1).get<std::string>());
  }
  void WaitValue(const std::string& expression, double expected) {
    WaitFor(expression + " to be " + std::to_string(expected),
            [&] { return Value(expression) == expected; });
  }

  json JobWithGpus(const std::string& name, int replicas) const {
    json manifest = JobManifest(ns(), name, replicas);
    manifest["spec"]["worker"]["template"]["spec"]["containers"] =
        json::array({{{"name", "worker"}, {"resources", {{"limits", {{"nvidia.com/gpu", 8}}}}}}});
    return manifest;
  }
  std::string OfNamespace(const std::string& metric) const {
    return metric + "{job_namespace=\"" + ns() + "\"}";
  }

  // Runs a job through every event that metrics count: training, a lost worker, scaling down, end.
  void LiveThroughEverything() {
    StartKubelet();
    ASSERT_NO_FATAL_FAILURE(CreateJob(JobWithGpus("digits", 3)));
    ASSERT_NO_FATAL_FAILURE(WaitCondition("digits", "Running", "True"));
    kubelet().Launcher("digits-launcher-1")->Report([](control::LauncherStatus& status) {
      status.progress = control::Progress{.step = 7, .total_steps = 100};
    });
    WaitValue(OfNamespace("ringmaster_gpus_productive"), 24);
    // The Pod may not run yet, although the fake launcher already reports it.
    WaitFor("a worker to kill",
            [&] { return kubelet().Terminate("digits-worker-1", 137, "").ok(); });
    WaitValue("sum(ringmaster_job_restarts_total)", 1);
    kubelet().Launcher("digits-launcher-1")->Report([](control::LauncherStatus& status) {
      status.last_recovery = control::Recovery{.epoch = {1, 2},
                                               .cause = "AgentLost",
                                               .pod = "digits-worker-1",
                                               .node = "n",
                                               .detected_millis = 200,
                                               .resumed_millis = 150,
                                               .steps_lost = 1};
    });
    WaitValue("ringmaster_job_recoveries_total{cause=\"AgentLost\"}", 1);
    const auto scaled =
        admin().MergePatch(JobPath("digits"), {{"spec", {{"worker", {{"replicas", 2}}}}}});
    ASSERT_TRUE(scaled.ok()) << scaled.Text();
    WaitValue("ringmaster_job_drain_seconds_count", 1);
    WaitValue(OfNamespace("ringmaster_gpus_productive"), 16);
  }

 private:
  std::unique_ptr<PrometheusServer> prometheus_;
};

TEST_F(PrometheusTest, EveryExpressionOfDashboardAndRulesIsAnsweredByWhatTheOperatorExports) {
  StartOperator();
  StartPrometheus();
  ASSERT_NO_FATAL_FAILURE(LiveThroughEverything());
  ASSERT_NO_FATAL_FAILURE(CreateJob("waits", 1));
  StopKubelet();
  ASSERT_NO_FATAL_FAILURE(CreateJob("waits-longer", 1));
  WaitFor("a job that waits", [&] {
    return Value("max(ringmaster_job_longest_wait_seconds{phase=\"Pending\"})").has_value();
  });

  // Rates need two scrapes, and rules that use other rules need two evaluations.
  WaitFor("recorded values", [&] {
    return Value("ringmaster:api_errors:ratio_rate5m") &&
           Value("ringmaster:job_recovery_seconds:p90_1h") &&
           Value("ringmaster:job_drain_seconds:p90_1h") &&
           Value("ringmaster:job_submit_to_running_seconds:p95_1h") &&
           Value("ringmaster:reconcile_errors:ratio_rate5m");
  });
  const json groups = prometheus().Get("rules").at("groups");
  const json dashboard = json::parse(std::ifstream(kDashboard));
  std::vector<Expression> expressions = OfDashboard(dashboard);
  EXPECT_GT(expressions.size(), 40u);
  const std::vector<Expression> of_rules = OfRules(groups);
  EXPECT_GT(of_rules.size(), 20u);
  expressions.insert(expressions.end(), of_rules.begin(), of_rules.end());

  std::map<std::string, std::set<std::string>> selectors;
  for (const Expression& expression : expressions) {
    const std::string query = "query=" + PercentEncode(expression.text);
    EXPECT_EQ(prometheus().Refusal("query?" + query), "") << expression.where;
    CollectSelectors(prometheus().Get("parse_query?" + query), selectors);
  }

  EXPECT_GT(selectors.size(), 40u);
  for (const auto& [metric, labels] : selectors) {
    if (kMayBeMissing.contains(metric)) continue;
    json samples;
    // After a scrape that timed out, the metric has no samples until the next scrape.
    WaitFor(metric, [&, name = metric] {
      samples = prometheus().Query(name);
      return samples.is_array() && !samples.empty();
    });
    if (HasFatalFailure()) return;
    for (const std::string& label : labels) {
      EXPECT_TRUE(samples[0].at("metric").contains(label)) << metric << " has no label " << label;
    }
  }

  // Conversely, every exported metric is used by the dashboard or a rule.
  const std::string text = op().Metrics();
  const std::regex family("# TYPE (ringmaster_\\S+) ");
  for (std::sregex_iterator it(text.begin(), text.end(), family), end; it != end; ++it) {
    const std::string name = (*it)[1];
    const bool looked_at = selectors.contains(name) || selectors.contains(name + "_bucket") ||
                           selectors.contains(name + "_sum");
    EXPECT_TRUE(looked_at) << "nothing looks at " << name;
  }
}

TEST_F(PrometheusTest, AHealthyOperatorRaisesNoAlertAndEveryAlertSaysWhatToDo) {
  StartOperatorThatAsksForTokens();
  StartPrometheus(TokenOf("prometheus", true));
  ASSERT_NO_FATAL_FAILURE(LiveThroughEverything());
  WaitFor("rules to be evaluated twice", [&] {
    return Value("ringmaster:gpus_productive:ratio{job_namespace=\"" + ns() + "\"}") == 1;
  });

  const json groups = prometheus().Get("rules").at("groups");
  for (const json& group : groups) {
    for (const json& rule : group.at("rules")) {
      const std::string name = rule.at("name").get<std::string>();
      EXPECT_EQ(rule.value("health", ""), "ok") << rule;
      if (rule.at("type") != "alerting") continue;
      EXPECT_NE(rule.at("state"), "firing") << rule;
      for (const char* annotation : {"summary", "description", "runbook"}) {
        EXPECT_NE(rule.at("annotations").value(annotation, ""), "") << name << " " << annotation;
      }
      const std::string severity = rule.at("labels").value("severity", "");
      EXPECT_TRUE(severity == "critical" || severity == "warning") << name;
    }
  }
}

TEST_F(PrometheusTest, NamesAndHelpTextsPassPrometheusOwnLint) {
  StartOperator();
  RunJob("digits", 1);

  const CommandOutput lint =
      RunCommand({KubernetesPrograms() / "promtool", "check", "metrics"}, op().Metrics());

  EXPECT_EQ(lint.status, 0) << lint.text;
  EXPECT_EQ(lint.text, "");
}

TEST_F(PrometheusTest, ASuccessorSaysWhereJobsStandAndCountsNothingAgain) {
  StartOperator();
  StartKubelet();
  ASSERT_NO_FATAL_FAILURE(CreateJob(JobWithGpus("digits", 2)));
  ASSERT_NO_FATAL_FAILURE(WaitCondition("digits", "Running", "True"));
  const auto says = [&](const std::string& line) {
    return op().Metrics().find("\n" + line + "\n") != std::string::npos;
  };
  WaitFor("the first operator to count the start",
          [&] { return says("ringmaster_job_submit_to_running_seconds_count 1"); });
  ASSERT_EQ(op().Stop(), 0);

  StartOperator();
  ASSERT_TRUE(op().WaitLeading());

  WaitFor("the successor to know the job",
          [&] { return says(OfNamespace("ringmaster_gpus_productive") + " 16"); });
  EXPECT_TRUE(says(OfNamespace("ringmaster_gpus_requested") + " 16"));
  EXPECT_TRUE(says("ringmaster_jobs{phase=\"Running\"} 1"));
  EXPECT_TRUE(says("ringmaster_job_submit_to_running_seconds_count 0"));
  FinishJob("digits", Success(2));
  WaitFor("the end to be counted", [&] {
    return says("ringmaster_jobs_ended_total{reason=\"Completed\",result=\"Succeeded\"} 1");
  });
  EXPECT_TRUE(says("ringmaster_job_phase_seconds_count{phase=\"Running\"} 1"));
  // This metric is updated only after the watch has delivered the operator's own write.
  WaitFor("the job to be seen ended",
          [&] { return says("ringmaster_jobs{phase=\"Succeeded\"} 1"); });
  EXPECT_TRUE(says(OfNamespace("ringmaster_gpus_requested") + " 0"));
}

}  // namespace
}  // namespace ringmaster::testing
