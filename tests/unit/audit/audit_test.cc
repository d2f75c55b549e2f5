#include "worker/audit/audit.h"

#include <functional>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "worker/audit/compare.h"
#include "worker/audit/report.h"

namespace ringmaster::audit {
namespace {

constexpr int64_t kBatch = 12;

// The logs of a job, as its ranks would write them. Tests change the lines that they test.
class Job {
 public:
  // Adds a world of `members` that adopts step `step` of `adopted` and applies steps up to `last`.
  void World(Epoch epoch, const std::vector<std::string>& members, Epoch adopted, int64_t step,
             int64_t last, const std::string& from = "") {
    const auto size = static_cast<int64_t>(members.size());
    for (int64_t rank = 0; rank < size; ++rank) {
      auto& log = logs[members[static_cast<std::size_t>(rank)]];
      log.push_back(WorldLine{.epoch = epoch,
                              .rank = static_cast<int>(rank),
                              .global_batch = kBatch,
                              .members = members,
                              .adopted_epoch = adopted,
                              .adopted_step = step,
                              .adopted_from = from,
                              .checksum = StateAfter(step)});
      for (int64_t s = step + 1; s <= last; ++s) {
        StepLine line{.epoch = epoch,
                      .step = s,
                      .rank = static_cast<int>(rank),
                      .samples = {rank * kBatch / size, (rank + 1) * kBatch / size},
                      .checksum = {}};
        log.push_back(line);
        line.checksum = StateAfter(s);
        log.push_back(line);
      }
    }
  }

  static uint64_t StateAfter(int64_t step) { return 1000 + static_cast<uint64_t>(step); }

  StepLine& Step(const std::string& member, int64_t step, bool applied) {
    for (AuditLine& line : logs.at(member)) {
      auto* found = std::get_if<StepLine>(&line);
      if (found != nullptr && found->step == step && found->checksum.has_value() == applied) {
        return *found;
      }
    }
    throw std::out_of_range("no such step");
  }

  void Drop(const std::string& member, std::size_t last_lines) {
    logs.at(member).resize(logs.at(member).size() - last_lines);
  }

  Report Conclude(std::optional<int64_t> expected = {}) const {
    Audit audit;
    for (const auto& [member, lines] : logs) {
      const Audit::LogId log = audit.NewLog(member);
      for (const AuditLine& line : lines) {
        const auto added = audit.Add(log, line);
        EXPECT_TRUE(added.ok()) << added.error().message;
      }
    }
    return audit.Conclude(expected);
  }

  std::map<std::string, std::vector<AuditLine>> logs;
};

// Ranks a, b and c train 5 steps; c is killed in step 6; a and b train to 8; d joins for 9 and 10.
Job ElasticJob() {
  Job job;
  job.World({1, 1}, {"a", "b", "c"}, {0, 0}, 0, 5);
  for (const char* member : {"a", "b", "c"}) {
    StepLine begun = job.Step(member, 5, false);
    begun.step = 6;
    job.logs.at(member).push_back(begun);
  }
  job.World({1, 2}, {"a", "b"}, {1, 1}, 5, 8);
  job.World({2, 1}, {"a", "b", "d"}, {1, 2}, 8, 10);
  return job;
}

TEST(Audit, AJobWhoseWorldsChangeIsClean) {
  const Report report = ElasticJob().Conclude(10);

  EXPECT_THAT(report.findings.sentences, ::testing::IsEmpty());
  EXPECT_EQ(ExitCodeOf(report.findings), kExitClean);
  EXPECT_EQ(report.steps, 10);
  EXPECT_EQ(report.worlds, 3);
  ASSERT_EQ(report.schedule.size(), 3U);
  EXPECT_EQ(report.schedule[1].first, 6);
  EXPECT_EQ(report.schedule[1].last, 8);
  EXPECT_EQ(report.schedule[1].epoch, (Epoch{1, 2}));
  EXPECT_THAT(report.schedule[2].members, ::testing::ElementsAre("a", "b", "d"));
}

// Returns ElasticJob() with a state that is sharded over the ranks. The whole state's checksum
// after step s is 100 * s, and each rank logs the checksum of its share.
Job ShardedJob() {
  Job job = ElasticJob();
  for (auto& [member, lines] : job.logs) {
    uint64_t size = 0;
    for (AuditLine& line : lines) {
      if (auto* world = std::get_if<WorldLine>(&line)) {
        size = world->members.size();
        world->sharded = 100 * static_cast<uint64_t>(world->adopted_step);
        continue;
      }
      auto& step = std::get<StepLine>(line);
      const uint64_t whole = 100 * static_cast<uint64_t>(step.step);
      const uint64_t others = (size - 1) * static_cast<uint64_t>(step.step);
      if (step.checksum) {
        step.part = step.rank == 0 ? whole - others : static_cast<uint64_t>(step.step);
      }
    }
  }
  return job;
}

TEST(Audit, SharesOfAShardedStateMustAddUpToWhatTheNextWorldStartsFrom) {
  EXPECT_EQ(ExitCodeOf(ShardedJob().Conclude(10).findings), kExitClean);

  Job changed = ShardedJob();
  *changed.Step("c", 5, true).part += 1;
  const Report report = changed.Conclude(10);
  EXPECT_EQ(report.findings.disagreeing, 1);
  EXPECT_THAT(report.findings.sentences,
              ::testing::ElementsAre("the sharded state that epoch 1.2 started from, after step 5, "
                                     "differs from the shards that were logged there"));

  Job torn = ShardedJob();
  torn.Step("c", 5, true).part.reset();  // its share is not in the log
  EXPECT_EQ(ExitCodeOf(torn.Conclude(10).findings), kExitClean);
  EXPECT_EQ(torn.Conclude(10).states[5], std::nullopt);
}

TEST(Audit, RunsWithDifferentSharesDisagree) {
  Job other = ShardedJob();
  *other.Step("a", 7, true).part += 1;

  const Findings findings = Compare(ShardedJob().Conclude(10), other.Conclude(10));

  EXPECT_EQ(findings.disagreeing, 1);
}

TEST(Audit, ADeclaredRollBackIsNamedAndIsNeitherLossNorClean) {
  Job job;
  job.World({1, 1}, {"a", "b"}, {0, 0}, 0, 8);
  job.World({1, 2}, {"c", "d"}, {1, 1}, 5, 10, "checkpoint");

  const Report report = job.Conclude(10);

  EXPECT_EQ(report.findings.rolled_back, 3);
  EXPECT_EQ(report.findings.lost + report.findings.repeated + report.findings.unknown, 0);
  EXPECT_THAT(report.findings.sentences,
              ::testing::ElementsAre("epoch 1.2 adopted step 5 of epoch 1.1, from the latest "
                                     "checkpoint that was kept, when 8 steps were committed"));
  EXPECT_EQ(ExitCodeOf(report.findings), kExitRolledBack);
  EXPECT_THAT(SummaryLine(report), ::testing::HasSubstr(R"("rolled_back":3,"ok":false)"));
  EXPECT_EQ(report.steps, 10);
}

TEST(Audit, AnUndeclaredRollBackIsALoss) {
  Job job;
  job.World({1, 1}, {"a", "b"}, {0, 0}, 0, 8);
  job.World({1, 2}, {"c", "d"}, {1, 1}, 5, 10);

  const Report report = job.Conclude(10);

  EXPECT_EQ(report.findings.lost, 3);
  EXPECT_EQ(ExitCodeOf(report.findings), kExitViolation);
}

TEST(Audit, ARestoredStateThatDiffersFromTheLoggedOneDisagrees) {
  Job job;
  job.World({1, 1}, {"a", "b"}, {0, 0}, 0, 8);
  job.World({1, 2}, {"c", "d"}, {1, 1}, 5, 10, "checkpoint");
  for (const char* member : {"c", "d"}) std::get<WorldLine>(job.logs[member][0]).checksum = 1;

  EXPECT_EQ(job.Conclude(10).findings.disagreeing, 1);
}

TEST(Audit, ASnapshotOfTheLastStepLosesNothing) {
  Job job;
  job.World({1, 1}, {"a", "b"}, {0, 0}, 0, 8);
  job.World({1, 2}, {"c", "d"}, {1, 1}, 8, 10, "snapshot");

  EXPECT_EQ(ExitCodeOf(job.Conclude(10).findings), kExitClean);
}

TEST(Audit, StepsOfAnotherRunAreNotJudged) {
  Job job;
  job.World({1, 1}, {"a", "b"}, {0, 12}, 500, 510, "checkpoint");
  job.World({1, 2}, {"a"}, {1, 1}, 510, 520);

  const Report report = job.Conclude(520);

  EXPECT_THAT(report.findings.sentences, ::testing::IsEmpty());
  EXPECT_EQ(report.steps, 520);
  ASSERT_EQ(report.schedule.size(), 2U);
  EXPECT_EQ(report.schedule[0].first, 501);
}

TEST(Audit, AStepThatOneRankAppliedAndNobodyAdoptedIsNoLoss) {
  Job job;
  job.World({1, 1}, {"a", "b"}, {0, 0}, 0, 4);
  job.Drop("b", 1);  // b was killed in step 4; a applied it and was killed too
  job.World({1, 2}, {"d"}, {1, 1}, 3, 6);

  const Report report = job.Conclude(6);

  EXPECT_THAT(report.findings.sentences, ::testing::IsEmpty());
  EXPECT_EQ(report.schedule[0].last, 3);
}

TEST(Audit, AKilledRanksMissingLastLineIsClean) {
  Job job;
  job.World({1, 1}, {"a", "b"}, {0, 0}, 0, 4);
  job.Drop("b", 1);  // b was killed before it logged step 4
  job.World({1, 2}, {"a"}, {1, 1}, 4, 6);

  EXPECT_EQ(ExitCodeOf(job.Conclude(6).findings), kExitClean);
}

TEST(Audit, FindsEachKindOfError) {
  struct Case {
    const char* name;
    std::function<void(Job&)> change;
    int64_t Findings::*kind;
    const char* says;
  };
  const Case cases[] = {
      {"a committed step that the next world did not adopt",
       [](Job& job) {
         job.logs.clear();
         job.World({1, 1}, {"a", "b"}, {0, 0}, 0, 5);
         job.World({1, 2}, {"a", "b"}, {1, 1}, 4, 6);
       },
       &Findings::lost, "adopted step 4 of epoch 1.1 when 5 steps were committed"},
      {"a step that no log has",
       [](Job& job) {
         for (const char* member : {"a", "b", "d"}) {
           job.Step(member, 10, false).step = 11;
           job.Step(member, 10, true).step = 11;
         }
       },
       &Findings::lost, "applied step 11 but no log has step 10"},
      {"samples that nobody used",
       [](Job& job) {
         job.Step("b", 7, false).samples.begin += 2;
         job.Step("b", 7, true).samples.begin += 2;
       },
       &Findings::lost, "step 7 of epoch 1.2 left out samples 6 to 7"},
      {"the end of the batch unused",
       [](Job& job) {
         job.Step("b", 7, false).samples.end -= 1;
         job.Step("b", 7, true).samples.end -= 1;
       },
       &Findings::lost, "left out samples 11 to 11"},
      {"a log that skips a step",
       [](Job& job) {
         auto& log = job.logs.at("b");
         std::erase_if(log, [](const AuditLine& line) {
           const auto* step = std::get_if<StepLine>(&line);
           return step != nullptr && step->step == 7;
         });
       },
       &Findings::lost, "the log of b skips step 7"},
      {"a rank that went on without a step",
       [](Job& job) {
         auto& log = job.logs.at("b");
         std::erase_if(log, [](const AuditLine& line) {
           const auto* step = std::get_if<StepLine>(&line);
           return step != nullptr && step->step == 7 && step->checksum.has_value();
         });
       },
       &Findings::lost, "rank 1 continued without having applied step 7"},
      {"samples used twice",
       [](Job& job) {
         job.Step("b", 7, false).samples.begin -= 1;
         job.Step("b", 7, true).samples.begin -= 1;
       },
       &Findings::repeated, "step 7 of epoch 1.2 used sample 5 of its batch twice"},
      {"a step applied twice by a rank",
       [](Job& job) { job.logs.at("a").push_back(job.Step("a", 10, true)); }, &Findings::repeated,
       "rank 0 of epoch 2.1 applied step 10 twice"},
      {"a step below what the world started from",
       [](Job& job) {
         for (const char* member : {"a", "b", "d"}) {
           job.Step(member, 9, false).step = 8;
           std::get<StepLine>(job.logs.at(member).end()[-3]).step = 8;
         }
       },
       &Findings::repeated, "epoch 2.1 applied step 8 after step 8"},
      {"other parameters on one rank", [](Job& job) { job.Step("b", 7, true).checksum = 5; },
       &Findings::disagreeing, "rank 1 has other parameters after step 7 of epoch 1.2"},
      {"another adopted state than the one logged",
       [](Job& job) {
         for (const char* member : {"a", "b", "d"}) {
           for (AuditLine& line : job.logs.at(member)) {
             auto* world = std::get_if<WorldLine>(&line);
             if (world != nullptr && world->epoch == Epoch{2, 1}) world->checksum = 5;
           }
         }
       },
       &Findings::disagreeing, "after step 8, differs from the state that was logged there"},
      {"ranks that adopted different states",
       [](Job& job) { std::get<WorldLine>(job.logs.at("d").front()).checksum = 5; },
       &Findings::disagreeing, "rank 2 entered epoch 2.1 with other members or another state"},
      {"a step adopted from an epoch that did not compute it",
       [](Job& job) {
         for (auto& [member, log] : job.logs) {
           for (AuditLine& line : log) {
             auto* world = std::get_if<WorldLine>(&line);
             if (world != nullptr && world->epoch == Epoch{2, 1}) world->adopted_epoch = {1, 1};
           }
         }
       },
       &Findings::disagreeing, "epoch 2.1 adopted step 8 of epoch 1.1, which epoch 1.2 had"},
      {"applied with other samples than begun",
       [](Job& job) { job.Step("b", 7, true).samples.begin += 1; }, &Findings::disagreeing,
       "applied step 7 with samples other than those it started with"},
      {"a missing log", [](Job& job) { job.logs.erase("d"); }, &Findings::unknown,
       "no log shows d in step 9"},
      {"a log without its tail", [](Job& job) { job.Drop("b", 4); }, &Findings::unknown,
       "no log shows b in step 9"},
      {"a last step that not all logs have", [](Job& job) { job.Drop("b", 1); }, &Findings::unknown,
       "step 10 was applied by some ranks"},
      {"all logs end early",
       [](Job& job) {
         for (const char* member : {"a", "b", "d"}) job.Drop(member, 2);
       },
       &Findings::unknown, "9 steps are committed of 10 expected"},
      {"the logs of the first worlds are missing",
       [](Job& job) {
         job.logs.clear();
         job.World({2, 1}, {"d"}, {1, 2}, 8, 10);
       },
       &Findings::unknown, "adopted step 8 of epoch 1.2, but the logs show only 0 steps"},
  };

  for (const Case& c : cases) {
    Job job = ElasticJob();
    c.change(job);

    const Report report = job.Conclude(10);

    EXPECT_GT(report.findings.*c.kind, 0) << c.name;
    EXPECT_THAT(report.findings.sentences, ::testing::Contains(::testing::HasSubstr(c.says)))
        << c.name;
    const bool open = c.kind == &Findings::unknown;
    EXPECT_EQ(ExitCodeOf(report.findings), open ? kExitUnknown : kExitViolation) << c.name;
  }
}

// Returns a job without faults: a and b compute ten steps, with the same states as ElasticJob().
Job CalmJob() {
  Job job;
  job.World({1, 1}, {"a", "b"}, {0, 0}, 0, 10);
  return job;
}

TEST(Compare, RunsWithTheSameStatesAreTheSame) {
  const Report faulted = ElasticJob().Conclude();

  EXPECT_EQ(faulted.states.size(), 11U);
  const Findings found = Compare(faulted, CalmJob().Conclude());

  EXPECT_EQ(ExitCodeOf(found), kExitClean);
  EXPECT_THAT(found.sentences, ::testing::IsEmpty());
}

TEST(Compare, NamesTheStepAfterWhichTheStatesDiffer) {
  Job other = CalmJob();
  for (const char* member : {"a", "b"}) other.Step(member, 7, true).checksum = 0xabc;

  const Findings found = Compare(ElasticJob().Conclude(), other.Conclude());

  EXPECT_EQ(found.disagreeing, 1);
  EXPECT_THAT(found.sentences,
              ::testing::ElementsAre(::testing::AllOf(::testing::HasSubstr("after step 7:"),
                                                      ::testing::HasSubstr("0000000000000abc"))));
  EXPECT_EQ(ExitCodeOf(found), kExitViolation);
}

TEST(Compare, StepsThatOnlyOneRunHasDisagree) {
  Job shorter;
  shorter.World({1, 1}, {"a", "b"}, {0, 0}, 0, 8);

  EXPECT_EQ(Compare(ElasticJob().Conclude(), shorter.Conclude()).disagreeing, 2);
  EXPECT_EQ(Compare(shorter.Conclude(), ElasticJob().Conclude()).disagreeing, 2);
}

TEST(Compare, AnotherInitialStateDisagrees) {
  Job other = CalmJob();
  for (auto& [member, lines] : other.logs) std::get<WorldLine>(lines.front()).checksum = 1;

  const Findings found = Compare(ElasticJob().Conclude(), other.Conclude());

  EXPECT_EQ(found.disagreeing, 1);
  EXPECT_THAT(found.sentences, ::testing::ElementsAre(::testing::HasSubstr("after step 0:")));
}

TEST(Audit, MoreStepsThanExpectedDisagree) {
  const Report report = ElasticJob().Conclude(9);

  EXPECT_EQ(report.findings.disagreeing, 1);
}

TEST(Audit, RefusesInconsistentLines) {
  struct Refused {
    const char* says;
    std::function<void(StepLine&)> change;
  };
  const Refused cases[] = {
      {"but the log is in epoch 2.1",
       [](StepLine& line) {
         line.epoch = {1, 2};
       }},
      {"as rank 0", [](StepLine& line) { line.rank = 1; }},
      {"outside of the batch",
       [](StepLine& line) {
         line.samples = {0, kBatch + 1};
       }},
  };

  for (const Refused& c : cases) {
    const Job job = ElasticJob();
    Audit audit;
    const Audit::LogId log = audit.NewLog("a");
    for (const AuditLine& line : job.logs.at("a")) ASSERT_TRUE(audit.Add(log, line).ok());
    StepLine line{.epoch = {2, 1}, .step = 11, .rank = 0, .samples = {0, 4}, .checksum = {}};
    c.change(line);

    const auto added = audit.Add(log, line);

    ASSERT_FALSE(added.ok()) << c.says;
    EXPECT_THAT(added.error().message, ::testing::HasSubstr(c.says));
  }
}

}  // namespace
}  // namespace ringmaster::audit
