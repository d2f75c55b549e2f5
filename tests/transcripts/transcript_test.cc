// Tests the transcripts of both protocols: the current code must produce the committed transcripts
// of this version and understand those of all versions. RINGMASTER_RECORD=1 records them again.

#include <cstdlib>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/control/launcher_api.h"
#include "common/control/verdict.h"
#include "tests/transcripts/rank_replay.h"
#include "tests/transcripts/stage.h"

namespace ringmaster::transcripts {
namespace {

using namespace std::chrono_literals;

// Records a job: a world of four ranks, a loss, a growth, a drain, a checkpoint and a release.
Transcripts RecordStory() {
  Stage stage;
  stage.Order({0, 1, 2, 3});
  for (const int worker : {0, 1, 2, 3}) stage.StartAgent(worker);
  stage.Pass(200ms);
  stage.Begin(0, "another job's checkpoints lie beside");
  stage.Step(3);
  stage.Print(0, "step 3 of rank 0\n");
  stage.AskForStatus();

  stage.KillRank(2);
  stage.ReportBroken(0, 2);
  stage.Pass(3s);
  stage.Step(2);
  stage.Pass(3s);  // the restarted rank has joined again
  stage.Step(2);
  stage.AskForStatus();

  stage.StartAgent(4);
  stage.Order({0, 1, 2, 3, 4});
  stage.Pass(3s);
  stage.Step(2);
  stage.Pass(3s);
  stage.Step(2);
  stage.Print(4, "step of a joiner\n");
  stage.AskForStatus();

  stage.Order({0, 2, 3, 4});
  stage.Step(2);
  stage.Pass(3s);
  stage.Step(2);
  stage.AskForStatus();

  stage.Order({0, 2, 3, 4}, true);
  stage.Pass(500ms);
  stage.Step(1);
  stage.WriteCheckpoint();
  stage.LackProtection(3, "no memory");
  stage.AskForStatus();

  stage.Finish();
  stage.Pass(1s);
  EXPECT_TRUE(stage.decided());
  return stage.recorded();
}

std::vector<std::pair<std::string, Transcript>> RankTranscripts(const std::string& folder) {
  std::vector<std::pair<std::string, Transcript>> ranks;
  for (const auto& [name, transcript] : Read(folder)) {
    if (transcript.front().at("transcript") == "rank") ranks.emplace_back(name, transcript);
  }
  return ranks;
}

std::string FirstDifference(const Transcript& committed, const Transcript& recorded) {
  for (std::size_t line = 0; line < std::max(committed.size(), recorded.size()); ++line) {
    const Json before = line < committed.size() ? ShapeOf(committed[line]) : Json();
    const Json now = line < recorded.size() ? ShapeOf(recorded[line]) : Json();
    if (before == now) continue;
    return "line " + std::to_string(line + 1) + " was\n  " + before.dump() + "\nand is now\n  " +
           now.dump();
  }
  return "";
}

TEST(Transcripts, TheCurrentOnesAreWhatThisCodeSays) {
  const Transcripts recorded = RecordStory();
  if (std::getenv("RINGMASTER_RECORD") != nullptr) Write(CurrentFolder(), recorded);
  const Transcripts committed = Read(CurrentFolder());
  std::set<std::string> names;
  for (const auto& [name, transcript] : recorded) names.insert(name);
  for (const auto& [name, transcript] : committed) names.insert(name);

  for (const std::string& name : names) {
    ASSERT_TRUE(committed.contains(name) && recorded.contains(name)) << name;
    const std::string difference = FirstDifference(committed.at(name), recorded.at(name));
    EXPECT_EQ(difference, "") << name
                              << ".jsonl: where that is meant, run `make transcripts` and "
                                 "commit what it changes";
  }
}

TEST(Transcripts, TellTheWholeStory) {
  std::set<std::string> said;
  for (const auto& [name, transcript] : Read(CurrentFolder())) {
    for (const Json& line : transcript) {
      for (const char* whose : {"agent", "rank", "attach", "launcher", "says"}) {
        const auto found = line.find(whose);
        if (found != line.end() && found->is_object()) said.insert(found->value("type", ""));
      }
    }
  }

  for (const char* type :
       {"AgentHello",      "Welcome",        "AgentReady",     "RankHello",
        "RankReady",       "AttachHello",    "SlotAttached",   "StartEpoch",
        "AttachGo",        "RankEpoch",      "StoreSet",       "StoreGet",
        "StoreValues",     "RankProgress",   "RankPositions",  "RankOutput",
        "RankExited",      "RankBroken",     "PrepareEpoch",   "EpochAccepted",
        "RankLeave",       "SwitchEpoch",    "RankSwitch",     "RankAtBoundary",
        "SlotOutput",      "StopEpoch",      "TakeCheckpoint", "CheckpointWritten",
        "CheckpointGrant", "CheckpointDone", "RankProtection", "RankBegan",
        "RankDone",        "Release",        "AttachExit",     "Shutdown",
        "ChangeEpoch"}) {
    EXPECT_TRUE(said.contains(type)) << type;
  }
}

// The transcripts were recorded by this version or an earlier one.
TEST(Transcripts, AreAllUnderstood) {
  for (const std::string& folder : Folders()) {
    for (const auto& [name, transcript] : Read(folder)) {
      for (const Json& line : transcript) {
        for (const char* whose : {"agent", "rank", "attach", "launcher", "says", "operator"}) {
          const auto found = line.find(whose);
          if (found == line.end() || !found->is_object()) continue;
          std::string wrong;
          const auto check = [&](const auto& decoded) {
            if (!decoded.ok()) wrong = decoded.error().message;
          };
          if (found->contains("type")) check(control::Decode(found->dump()));
          if (found->contains("put")) check(control::DecodeOrder(found->at("body").dump()));
          if (found->contains("code")) {
            check(control::DecodeLauncherStatus(found->at("body").dump()));
          }
          if (found->contains("verdict")) {
            check(control::DecodeVerdict(found->at("verdict").dump()));
          }
          EXPECT_EQ(wrong, "") << folder << "/" << name << ": " << line.dump();
        }
      }
    }
  }
}

TEST(Transcripts, TheTrainersRankPlaysItsSideOfAll) {
  for (const std::string& folder : Folders()) {
    const auto ranks = RankTranscripts(folder);
    EXPECT_GE(ranks.size(), 5U);
    for (const auto& [name, transcript] : ranks) {
      EXPECT_EQ(ReplayRank(transcript), "") << folder << "/" << name;
    }
  }
}

TEST(Transcripts, ARankThatSaysSomethingElseIsFound) {
  for (auto [name, transcript] : RankTranscripts(CurrentFolder())) {
    bool changed = false;
    for (Json& line : transcript) {
      if (!line.contains("rank") || line["rank"]["type"] != "StoreSet") continue;
      line["rank"]["key"] = "another";
      changed = true;
    }
    if (!changed) continue;  // the rank was never in a world
    EXPECT_THAT(ReplayRank(transcript), ::testing::HasSubstr("another")) << name;
  }
}

}  // namespace
}  // namespace ringmaster::transcripts
