#include "operator/job/controller/question_turns.h"

#include <map>
#include <string>

#include <gtest/gtest.h>

namespace ringmaster::job {
namespace {

using std::chrono::milliseconds;

// Jobs that always have a request, and retry after the time that QuestionTurns returns.
struct Crowd {
  struct Job {
    std::string ns;
    Clock::Time comes;
  };
  std::map<std::string, Job> jobs;      // by UID
  std::map<std::string, int> answered;  // by namespace
  QuestionTurns turns;
  Clock::Time now{std::chrono::hours(1)};

  void Run(milliseconds time) {
    const Clock::Time end = now + time;
    for (; now < end; now += milliseconds(10)) {
      for (auto& [uid, job] : jobs) {
        if (job.comes > now) continue;
        const milliseconds wait = turns.Take(job.ns, uid, now);
        if (wait.count() == 0) {
          ++answered[job.ns];
          turns.Done();
        }
        job.comes = now + std::max(wait, milliseconds(10));
      }
    }
  }
};

TEST(QuestionTurns, FiveASecondAtMost) {
  Crowd crowd;
  for (int i = 0; i < 50; ++i) crowd.jobs["a" + std::to_string(i)] = {"a", crowd.now};

  crowd.Run(std::chrono::seconds(20));

  EXPECT_LE(crowd.answered["a"], 101);
  EXPECT_GE(crowd.answered["a"], 80);
}

TEST(QuestionTurns, ANamespaceWithManyJobsDoesNotKeepOthersWaiting) {
  Crowd crowd;
  for (int i = 0; i < 500; ++i) crowd.jobs["a" + std::to_string(i)] = {"a", crowd.now};
  crowd.jobs["z"] = {"b", crowd.now};

  crowd.Run(std::chrono::seconds(20));

  EXPECT_GE(crowd.answered["b"], 40);
  EXPECT_GE(crowd.answered["a"], 40);
}

TEST(QuestionTurns, OneAtATime) {
  QuestionTurns turns;
  const Clock::Time now{std::chrono::hours(1)};

  EXPECT_EQ(turns.Take("a", "1", now), milliseconds(0));
  EXPECT_GT(turns.Take("b", "2", now + std::chrono::seconds(1)), milliseconds(0));
  EXPECT_GT(turns.Take("b", "2", now + std::chrono::seconds(2)), milliseconds(0));
  turns.Done();
  EXPECT_EQ(turns.Take("b", "2", now + std::chrono::seconds(3)), milliseconds(0));
}

TEST(QuestionTurns, WhoDoesNotComeLosesItsPlace) {
  QuestionTurns turns;
  const Clock::Time now{std::chrono::hours(1)};
  EXPECT_EQ(turns.Take("a", "1", now), milliseconds(0));
  turns.Done();
  EXPECT_GT(turns.Take("a", "2", now), milliseconds(0));
  EXPECT_GT(turns.Take("a", "3", now + std::chrono::seconds(1)), milliseconds(0));

  EXPECT_EQ(turns.Take("a", "3", now + std::chrono::seconds(3)), milliseconds(0));
}

}  // namespace
}  // namespace ringmaster::job
