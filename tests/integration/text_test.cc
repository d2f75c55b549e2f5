// Tests with a real API server which version of a spec the operator creates Pods from. After
// any change of a spec, no Pod violates the policies, and the Pods of a run have the same template.

#include <algorithm>
#include <set>

#include <gmock/gmock.h>

#include "tests/integration/cluster_test.h"

namespace ringmaster::testing {
namespace {

using ::testing::HasSubstr;

constexpr char kMark[] = "evil";  // a label of every template that must not be used for a Pod

const json kHarmless{{"metadata", {{"annotations", {{"a", "b"}}}}}};

// A template's spec that breaks one rule of the template policy or needs the profile below.
struct Item {
  const char* name;
  const char* spec;
};
constexpr Item kItems[] = {
    {"hostnetwork", R"({"hostNetwork": true})"},
    {"hostpid", R"({"hostPID": true})"},
    {"hostipc", R"({"hostIPC": true})"},
    {"shared-pid", R"({"shareProcessNamespace": true})"},
    {"node", R"({"nodeName": "node-1"})"},
    {"scheduler", R"({"schedulerName": "mine"})"},
    {"account", R"({"serviceAccountName": "default"})"},
    {"old-account", R"({"serviceAccount": "default"})"},
    {"token", R"({"automountServiceAccountToken": true})"},
    {"system-class", R"({"priorityClassName": "system-node-critical"})"},
    {"hostname", R"({"hostname": "mine"})"},
    {"hostpath", R"({"volumes": [{"name": "h", "hostPath": {"path": "/"}}]})"},
    {"projected-token",
     R"({"volumes": [{"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]})"},
    {"root", R"({"securityContext": {"runAsUser": 0}})"},
    {"sysctl", R"({"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}})"},
    {"unconfined", R"({"securityContext": {"seccompProfile": {"type": "Unconfined"}}})"},
    {"privileged",
     R"({"containers": [{"name": "worker", "securityContext": {"privileged": true}}]})"},
    {"escalation",
     R"({"containers": [{"name": "worker", "securityContext": {"allowPrivilegeEscalation": true}}]})"},
    {"capability",
     R"({"containers": [{"name": "worker", "securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}]})"},
    {"sidecar",
     R"({"containers": [{"name": "worker"}, {"name": "x", "image": "registry.example.com/x", "securityContext": {"privileged": true}}]})"},
    {"init",
     R"({"initContainers": [{"name": "x", "image": "registry.example.com/x", "securityContext": {"privileged": true}}]})"},
    {"host-port",
     R"({"containers": [{"name": "worker", "ports": [{"containerPort": 22, "hostPort": 22}]}]})"},
    {"command", R"({"containers": [{"name": "worker", "command": ["sh"]}]})"},
    {"image", R"({"containers": [{"name": "worker", "image": "registry.example.com:5000/evil"}]})"},
    {"priority", R"({"priorityClassName": "urgent"})"},
    {"runtime", R"({"runtimeClassName": "kata"})"},
    {"device", R"({"containers": [{"name": "worker", "resources": {"limits": {"rdma/hca": 1}}}]})"},
    {"gpus",
     R"({"containers": [{"name": "worker", "resources": {"limits": {"nvidia.com/gpu": 64}}}]})"},
    {"claims", R"({"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]})"},
};

enum class Verb { kMergePatch, kJsonPatch, kApply, kReplace };
constexpr std::pair<Verb, const char*> kVerbs[] = {{Verb::kMergePatch, "merge"},
                                                   {Verb::kJsonPatch, "json"},
                                                   {Verb::kApply, "apply"},
                                                   {Verb::kReplace, "replace"}};

json Evil(const Item& item) {
  return {{"metadata", {{"labels", {{kMark, "yes"}}}}}, {"spec", json::parse(item.spec)}};
}

// Returns the merge patch that changes `from` into `to`.
json MergePatch(const json& from, const json& to) {
  json patch = json::object();
  for (const auto& [key, value] : from.items()) {
    if (!to.contains(key)) patch[key] = nullptr;
  }
  for (const auto& [key, value] : to.items()) {
    const bool deeper = from.contains(key) && from.at(key).is_object() && value.is_object();
    patch[key] = deeper ? MergePatch(from.at(key), value) : value;
  }
  return patch;
}

class TextTest : public ClusterTest {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(ClusterTest::SetUp());
    Start();
  }
  void Start() {
    PutProfile(ns(), {{"default", true},
                      {"limits",
                       {{"imagePrefixes", {"registry.example.com"}},
                        {"priorityClasses", {"training"}},
                        {"runtimeClasses", {"nvidia"}},
                        {"gpus", 8}}}});
    StartOperator();
  }
  void Stop() { ASSERT_EQ(op().Stop(), 0); }

  json Manifest(const std::string& name, const json& pod_template, bool suspend) {
    json manifest = JobManifest(ns(), name, 1);
    manifest["spec"]["worker"]["template"] = pod_template;
    manifest["spec"]["suspend"] = suspend;
    return manifest;
  }

  // Changes the template and `suspend` of a job in one request.
  void Change(const std::string& name, Verb verb, const json& pod_template, bool suspend) {
    Response changed;
    switch (verb) {
      case Verb::kMergePatch: {
        const json patch = MergePatch(At(Job(name), "/spec/worker/template"), pod_template);
        changed = admin().MergePatch(
            JobPath(name), {{"spec", {{"worker", {{"template", patch}}}, {"suspend", suspend}}}});
        break;
      }
      case Verb::kJsonPatch:
        changed = admin().Send(
            "PATCH", JobPath(name),
            json::array(
                {{{"op", "replace"}, {"path", "/spec/worker/template"}, {"value", pod_template}},
                 {{"op", "replace"}, {"path", "/spec/suspend"}, {"value", suspend}}})
                .dump(),
            "application/json-patch+json");
        break;
      case Verb::kApply:
        changed = admin().Send("PATCH", JobPath(name) + "?fieldManager=attacker&force=true",
                               Manifest(name, pod_template, suspend).dump(),
                               "application/apply-patch+yaml");
        break;
      case Verb::kReplace: {
        json job = Job(name);
        job["spec"]["worker"]["template"] = pod_template;
        job["spec"]["suspend"] = suspend;
        job["metadata"].erase("resourceVersion");
        job["metadata"]["resourceVersion"] = TextAt(Job(name), "/metadata/resourceVersion");
        changed = admin().Put(JobPath(name), job);
        // Retry if the operator has written the status in between.
        for (int i = 0; i < 20 && changed.status == 409; ++i) {
          job["metadata"]["resourceVersion"] = TextAt(Job(name), "/metadata/resourceVersion");
          changed = admin().Put(JobPath(name), job);
        }
        break;
      }
    }
    ASSERT_TRUE(changed.ok()) << name << ": " << changed.Text();
  }
  void Suspend(const std::string& name, bool suspend) {
    const Response changed = admin().MergePatch(JobPath(name), {{"spec", {{"suspend", suspend}}}});
    ASSERT_TRUE(changed.ok()) << changed.Text();
  }

  // Returns the conditions of this type by job name. Jobs without the condition are omitted.
  std::map<std::string, json> Conditions(const std::string& type) {
    std::map<std::string, json> found;
    const Response all =
        admin().Get("/apis/ringmaster.dev/v1alpha1/namespaces/" + ns() + "/trainingjobs");
    for (const json& job : At(all.body, "/items")) {
      for (const json& condition : At(job, "/status/conditions")) {
        if (TextAt(condition, "/type") == type) {
          found[TextAt(job, "/metadata/name")] = condition;
        }
      }
    }
    return found;
  }
  void WaitAll(const std::vector<std::string>& jobs, const std::string& type,
               const std::string& reason) {
    WaitFor("all to be " + type + " " + reason, [&] {
      const auto conditions = Conditions(type);
      return std::all_of(jobs.begin(), jobs.end(), [&](const std::string& job) {
        const auto found = conditions.find(job);
        return found != conditions.end() && TextAt(found->second, "/status") == "True" &&
               TextAt(found->second, "/reason") == reason;
      });
    });
  }
  // Waits until a condition of every job says that the spec or a profile must change.
  void WaitAllRefused(const std::vector<std::string>& jobs) {
    WaitFor("all to be refused", [&] {
      const auto stalled = Conditions("Stalled");
      const auto waiting = Conditions("WorkersReady");
      return std::all_of(jobs.begin(), jobs.end(), [&](const std::string& job) {
        const auto stall = stalled.find(job);
        const auto wait = waiting.find(job);
        return (stall != stalled.end() && TextAt(stall->second, "/reason") == "InvalidSpec") ||
               (wait != waiting.end() && TextAt(wait->second, "/reason") == "RefusedByProfile");
      });
    });
  }
  // Returns the UIDs of the workers by name.
  std::map<std::string, std::string> Workers() {
    std::map<std::string, std::string> workers;
    for (const auto& [name, pod] : List("pods")) {
      if (TextAt(pod, "/metadata/labels/ringmaster.dev~1role") == "worker") {
        workers[name] = TextAt(pod, "/metadata/uid");
      }
    }
    return workers;
  }
  // Deletes the worker of each job, calls `meanwhile`, and waits for the replacements.
  void ReplaceWorkers(const std::function<void()>& meanwhile) {
    const auto before = Workers();
    std::set<std::string> gone;
    for (const auto& [name, uid] : before) {
      gone.insert(uid);
      ASSERT_TRUE(admin().Delete(Path("pods", name)).ok()) << name;
    }
    meanwhile();
    WaitFor("a new worker of each job", [&] {
      const auto now = Workers();
      return now.size() == before.size() &&
             std::none_of(now.begin(), now.end(),
                          [&](const auto& worker) { return gone.contains(worker.second); });
    });
  }
  // Checks all Pods that the operator has requested from the API server.
  void ExpectNoPodWasEvil() {
    std::size_t pods = 0;
    for (const ProxiedRequest& write : proxy().Writes()) {
      if (write.method != "POST" || !write.Path().ends_with("/pods")) continue;
      ++pods;
      const json pod = json::parse(write.body);
      EXPECT_EQ(TextAt(pod, "/metadata/labels/" + std::string(kMark)), "") << write.body;
    }
    RecordProperty("pods", static_cast<int>(pods));
  }
  // Returns the values of the revision label of a job's Pods.
  std::set<std::string> Revisions(const std::string& job) {
    std::set<std::string> revisions;
    for (const auto& [name, pod] : List("pods")) {
      if (name.starts_with(job + "-")) {
        revisions.insert(TextAt(pod, "/metadata/labels/ringmaster.dev~1revision"));
      }
    }
    return revisions;
  }
  json Pin(const std::string& job) {
    return admin()
        .Get("/apis/apps/v1/namespaces/" + ns() + "/controllerrevisions/" + job + "-run-" +
             JobUid(job).substr(0, 8))
        .body;
  }
};

// The operator checks the template while the job is suspended. A merge patch then replaces the
// template with one that has none of the old keys. CEL does not detect this change.
TEST_F(TextTest, ASuspendedJobsTemplateIsJudgedAgainWhenItIsResumed) {
  CreateJob(Manifest("digits", {{"metadata", {{"labels", {{"a", "b"}}}}}}, true));
  WaitCondition("digits", "Suspended", "True");

  const Response changed = admin().MergePatch(
      JobPath("digits"),
      {{"spec",
        {{"suspend", false},
         {"worker",
          {{"template",
            {{"metadata", nullptr},
             {"spec",
              {{"hostPID", true},
               {"volumes", json::array({{{"name", "host"}, {"hostPath", {{"path", "/"}}}}})},
               {"containers",
                json::array(
                    {{{"name", "worker"}, {"securityContext", {{"privileged", true}}}}})}}}}}}}}}});

  ASSERT_TRUE(changed.ok()) << changed.Text();
  WaitCondition("digits", "Stalled", "True", "InvalidSpec");
  EXPECT_THAT(TextAt(Condition("digits", "Stalled"), "/message"),
              HasSubstr("spec.worker.template.spec.hostPID"));
  for (const ProxiedRequest& write : proxy().Writes()) {
    EXPECT_FALSE(write.method == "POST" && write.Path().ends_with("/pods")) << write.body;
  }
}

TEST_F(TextTest, WhatIsRefusedComesIntoNoPodOfARunningJob) {
  struct Case {
    std::string job;
    Verb verb;
    std::size_t item;
  };
  std::vector<Case> cases;
  std::vector<std::string> jobs;
  for (std::size_t item = 0; item < std::size(kItems); ++item) {
    for (const auto& [verb, text] : kVerbs) {
      const std::string job = std::string(kItems[item].name) + "-" + text;
      cases.push_back({job, verb, item});
      jobs.push_back(job);
      CreateJob(Manifest(job, kHarmless, false));
    }
  }
  WaitFor("the Pods of all jobs", [&] { return Names("pods").size() == 2 * jobs.size(); });

  for (const Case& one : cases) Change(one.job, one.verb, Evil(kItems[one.item]), false);
  ReplaceWorkers([] {});
  WaitAll(jobs, "ChangePending", "ChangedWhileRunning");

  // Change the specs again while no operator runs, and then start a new operator.
  Stop();
  for (const Case& one : cases) {
    Change(one.job, one.verb, Evil(kItems[(one.item + 1) % std::size(kItems)]), false);
  }
  ReplaceWorkers([this] { Start(); });
  WaitAll(jobs, "ChangePending", "ChangedWhileRunning");

  ExpectNoPodWasEvil();
  EXPECT_TRUE(Conditions("Failed").empty()) << "a job goes on from the text that it began with";
  for (const auto& [job, condition] : Conditions("ChangePending")) {
    EXPECT_THAT(TextAt(condition, "/message"), HasSubstr("spec.worker.template.")) << job;
  }
}

TEST_F(TextTest, WhatIsRefusedComesIntoNoPodOfASuspendedOrResumedJob) {
  struct Case {
    std::string job;
    Verb verb;
    json evil;
  };
  std::vector<Case> suspended;
  std::vector<Case> resumed;
  std::vector<Case> unseen;
  std::vector<std::string> jobs;
  for (const Item& item : kItems) {
    for (const auto& [verb, text] : kVerbs) {
      const std::string job = std::string(item.name) + "-" + text;
      suspended.push_back({job + "-s", verb, Evil(item)});
      resumed.push_back({job + "-r", verb, Evil(item)});
      unseen.push_back({job + "-u", verb, Evil(item)});
    }
  }
  for (const auto* cases : {&suspended, &resumed, &unseen}) {
    for (const Case& one : *cases) {
      jobs.push_back(one.job);
      CreateJob(Manifest(one.job, kHarmless, true));
    }
  }
  WaitAll(jobs, "Suspended", "Suspended");

  for (const Case& one : suspended) Change(one.job, one.verb, one.evil, true);
  for (const Case& one : suspended) Suspend(one.job, false);
  for (const Case& one : resumed) Change(one.job, one.verb, one.evil, false);
  Stop();
  for (const Case& one : unseen) Change(one.job, one.verb, one.evil, false);
  Start();

  WaitAllRefused(jobs);
  EXPECT_TRUE(Names("pods").empty());
  ExpectNoPodWasEvil();
}

TEST_F(TextTest, WhatIsRefusedComesIntoNoPodOfANewJob) {
  std::vector<std::string> jobs;
  for (const Item& item : kItems) {
    for (const bool suspend : {false, true}) {
      jobs.push_back(std::string(item.name) + (suspend ? "-suspended" : "-new"));
      CreateJob(Manifest(jobs.back(), Evil(item), suspend));
    }
  }
  // Fields that a profile could allow are checked only when the job is resumed.
  WaitFor("all to be looked at", [&] { return Conditions("WorkersReady").size() == jobs.size(); });
  EXPECT_TRUE(Names("pods").empty());
  for (const auto& [job, condition] : Conditions("Suspended")) Suspend(job, false);
  WaitAllRefused(jobs);
  EXPECT_TRUE(Names("pods").empty());
  ExpectNoPodWasEvil();
}

// Suspends and resumes twice: the result of the first check must not be reused for the second.
TEST_F(TextTest, AJobThatRanAndWasSuspendedGetsNoPodOfWhatIsRefusedAndIsNotEnded) {
  std::vector<std::string> jobs;
  for (const auto& [verb, text] : kVerbs) {
    jobs.emplace_back(text);
    CreateJob(Manifest(text, kHarmless, false));
  }
  WaitFor("their Pods", [&] { return Names("pods").size() == 2 * jobs.size(); });
  for (const std::string& job : jobs) Suspend(job, true);
  WaitAll(jobs, "Suspended", "Suspended");
  WaitFor("no Pods", [&] { return Names("pods").empty(); });

  for (const auto& [verb, text] : kVerbs) Change(text, verb, Evil(kItems[1]), false);

  WaitFor("all to say why", [&] {
    const auto ready = Conditions("WorkersReady");
    return std::all_of(jobs.begin(), jobs.end(), [&](const std::string& job) {
      return TextAt(ready.at(job), "/message").find("template.spec.hostPID") != std::string::npos;
    });
  });
  EXPECT_TRUE(Names("pods").empty());
  EXPECT_TRUE(Conditions("Failed").empty());

  for (const auto& [verb, text] : kVerbs) Change(text, verb, kHarmless, false);

  WaitFor("their Pods again", [&] { return Names("pods").size() == 2 * jobs.size(); });
  ExpectNoPodWasEvil();
}

TEST_F(TextTest, AnAllowedChangeTakesEffectWhenTheJobIsResumedAndIsRefusedUntilThen) {
  const json changed{{"metadata", {{"labels", {{"team", "vision"}}}}}};
  std::vector<std::string> jobs;
  for (const auto& [verb, text] : kVerbs) {
    jobs.emplace_back(text);
    CreateJob(Manifest(text, kHarmless, false));
  }
  WaitFor("their Pods", [&] { return Names("pods").size() == 2 * jobs.size(); });
  const auto with_change = [&] {
    const auto pods = List("pods");
    return std::count_if(pods.begin(), pods.end(), [](const auto& pod) {
      return TextAt(pod.second, "/metadata/labels/team") == "vision";
    });
  };
  const json pin = Pin("merge");
  EXPECT_EQ(At(pin, "/data/spec/worker/template"), kHarmless);
  EXPECT_EQ(TextAt(pin, "/metadata/ownerReferences/0/uid"), JobUid("merge"));
  EXPECT_EQ(Revisions("merge"),
            std::set<std::string>{TextAt(pin, "/metadata/labels/ringmaster.dev~1revision")});

  for (const auto& [verb, text] : kVerbs) Change(text, verb, changed, false);
  WaitAll(jobs, "ChangePending", "ChangedWhileRunning");
  ReplaceWorkers([] {});
  EXPECT_EQ(with_change(), 0);
  for (const std::string& job : jobs) EXPECT_EQ(Revisions(job).size(), 1U) << job;
  WaitFor("one event each", [&] { return Events("ChangePending").size() == jobs.size(); });

  Stop();
  ReplaceWorkers([this] { Start(); });
  EXPECT_EQ(with_change(), 0) << "another operator finds the run's text";
  EXPECT_EQ(Events("ChangePending").size(), jobs.size());

  for (const std::string& job : jobs) Suspend(job, true);
  WaitAll(jobs, "Suspended", "Suspended");
  for (const std::string& job : jobs) EXPECT_EQ(TextAt(Pin(job), "/kind"), "Status") << job;
  for (const std::string& job : jobs) Suspend(job, false);
  WaitFor("Pods of the changed template",
          [&] { return with_change() == static_cast<long>(jobs.size()); });
  WaitFor("no more to be refused", [&] {
    const auto refused = Conditions("ChangePending");
    return std::all_of(refused.begin(), refused.end(),
                       [](const auto& one) { return TextAt(one.second, "/status") == "False"; });
  });

  // Change the template while the job is suspended, or in the request that resumes it.
  for (const std::string& job : jobs) Suspend(job, true);
  WaitAll(jobs, "Suspended", "Suspended");
  for (const auto& [verb, text] : kVerbs) {
    if (verb == Verb::kMergePatch) Change(text, verb, kHarmless, true);
    Change(text, verb, {{"metadata", {{"labels", {{"team", "speech"}}}}}}, false);
  }
  WaitFor("Pods of the last template", [&] {
    const auto pods = List("pods");
    return std::count_if(pods.begin(), pods.end(), [](const auto& pod) {
             return TextAt(pod.second, "/metadata/labels/team") == "speech";
           }) == static_cast<long>(jobs.size());
  });
}

// Users who may write ControllerRevisions in the namespace can forge the revision of a run.
TEST_F(TextTest, AForgedPinIsJudgedAndStandsInNobodyElsesWay) {
  CreateJob(Manifest("digits", kHarmless, true));
  CreateJob(Manifest("taken", kHarmless, true));
  WaitAll({"digits", "taken"}, "Suspended", "Suspended");
  const auto forge = [&](const std::string& job, const json& spec, bool owned) {
    json pin{{"metadata", {{"name", job + "-run-" + JobUid(job).substr(0, 8)}}},
             {"data", {{"spec", spec}}},
             {"revision", 1}};
    if (owned) {
      pin["metadata"]["ownerReferences"] = json::array({{{"apiVersion", "ringmaster.dev/v1alpha1"},
                                                         {"kind", "TrainingJob"},
                                                         {"name", job},
                                                         {"uid", JobUid(job)},
                                                         {"controller", true}}});
    }
    const Response made =
        admin().Post("/apis/apps/v1/namespaces/" + ns() + "/controllerrevisions", pin);
    ASSERT_EQ(made.status, 201) << made.Text();
  };
  json spec = JobManifest(ns(), "digits", 1)["spec"];
  spec["worker"] = {{"template", Evil(kItems[1])}};
  forge("digits", spec, true);
  forge("taken", spec, false);

  Suspend("digits", false);
  Suspend("taken", false);
  CreateJob("other", 1);

  WaitFor("the forged text to be refused", [&] {
    return TextAt(Condition("digits", "WorkersReady"), "/message").find("template.spec.hostPID") !=
           std::string::npos;
  });
  WaitCondition("taken", "WorkersReady", "False", "NameConflict");
  EXPECT_THAT(TextAt(Condition("taken", "WorkersReady"), "/message"),
              HasSubstr("ControllerRevision"));
  WaitFor("the other job's Pods", [&] {
    const auto pods = Names("pods");
    return std::count_if(pods.begin(), pods.end(),
                         [](const std::string& name) { return name.starts_with("other-"); }) == 2;
  });
  ExpectNoPodWasEvil();
}

TEST_F(TextTest, NothingInAStatusMakesAPod) {
  Stop();
  CreateJob(Manifest("digits", Evil(kItems[1]), false));
  const Response forged = admin().MergePatch(JobPath("digits") + "/status",
                                             {{"status",
                                               {{"internal", {{"launcherTerm", 3}}},
                                                {"epoch", 2},
                                                {"worldSize", 1},
                                                {"startTime", "2026-01-01T00:00:00Z"}}}});
  ASSERT_TRUE(forged.ok()) << forged.Text();

  Start();

  WaitCondition("digits", "Stalled", "True", "InvalidSpec");
  EXPECT_TRUE(Names("pods").empty());
  ExpectNoPodWasEvil();
}

}  // namespace
}  // namespace ringmaster::testing
