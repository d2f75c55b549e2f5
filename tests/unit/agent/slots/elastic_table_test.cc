// Tests how a slot of an elastic job reacts to every event in every state. If the table does not
// list a reaction, nothing happens.

#include <csignal>
#include <functional>
#include <map>
#include <string>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/agent/slots/fake_slot_actions.h"
#include "worker/agent/slots/elastic_slots.h"

namespace ringmaster::agent {
namespace {

using control::Epoch;
using std::chrono::milliseconds;
using std::chrono::seconds;

struct Event {
  std::string name;
  std::function<void(ElasticSlots&)> apply;
};
using State = Event;

void Exit(ElasticSlots& slots, ProcessEnd end, milliseconds lived = seconds(60)) {
  slots.OnRankExit(0, {end, lived, {}});
}
void RunIn(ElasticSlots& slots, Epoch epoch, const std::string& start) {
  slots.OnStartEpoch(TestStart(epoch, 1, {start}));
}

// Returns all states, reached from a process that has just started ("n-1"). Worlds have epoch 1.5.
std::vector<State> States() {
  const auto in_world = [](ElasticSlots& slots) {
    slots.OnRankHello(0);
    RunIn(slots, {1, 5}, "n-1");
  };
  const auto and_then = [in_world](std::function<void(ElasticSlots&)> more) {
    return [in_world, more](ElasticSlots& slots) {
      in_world(slots);
      more(slots);
    };
  };
  return {
      {"loads", [](ElasticSlots&) {}},
      {"ready", [](ElasticSlots& slots) { slots.OnRankHello(0); }},
      {"chosen",
       [](ElasticSlots& slots) {
         RunIn(slots, {1, 5}, "");
       }},
      {"in world", in_world},
      {"told to leave", and_then([](auto& slots) {
         slots.OnPrepareEpoch({{1, 6}});
       })},
      {"stopping", and_then([](auto& slots) {
         slots.OnStopEpoch({{1, 5}, 500});
       })},
      {"released", and_then([](auto& slots) {
         slots.OnRelease({{1, 5}});
       })},
      {"being killed", and_then([](auto& slots) { slots.OnRankKilled(0, {}); })},
      {"waits", and_then([](auto& slots) {
         Exit(slots, {1, 0}, seconds(1));
         Exit(slots, {1, 0}, seconds(1));
       })},
      {"given up", and_then([](auto& slots) {
         Exit(slots, {2, 0});
       })},
      {"leaving", and_then([](auto& slots) { EXPECT_TRUE(slots.Leave("asked")); })},
      {"ending", and_then([](auto& slots) { slots.End(milliseconds(10)); })},
  };
}

template <typename Message>
std::function<void(ElasticSlots&)> Tell(void (ElasticSlots::*on)(const Message&),
                                        std::type_identity_t<Message> message) {
  return [on, message](ElasticSlots& slots) { (slots.*on)(message); };
}
std::function<void(ElasticSlots&)> Says(control::Message message) {
  return [message](ElasticSlots& slots) { ASSERT_TRUE(slots.OnRankMessage(0, message)); };
}
std::function<void(ElasticSlots&)> Starts(Epoch epoch, const std::vector<std::string>& starts) {
  return Tell(&ElasticSlots::OnStartEpoch, TestStart(epoch, 1, starts));
}
std::function<void(ElasticSlots&)> Ends(ProcessEnd end) {
  return [end](ElasticSlots& slots) { Exit(slots, end); };
}

std::vector<Event> Events() {
  return {
      {"Prepare 1.4", Tell(&ElasticSlots::OnPrepareEpoch, {{1, 4}})},
      {"Prepare 1.9", Tell(&ElasticSlots::OnPrepareEpoch, {{1, 9}})},
      {"Start 1.4", Starts({1, 4}, {"n-1"})},
      {"Start 1.9 of n-1", Starts({1, 9}, {"n-1"})},
      {"Start 1.9 of another", Starts({1, 9}, {"m-1"})},
      {"Start 1.9 of anybody", Starts({1, 9}, {""})},
      {"Start 1.9 without us", Starts({1, 9}, {})},
      {"Switch 1.4", Tell(&ElasticSlots::OnSwitchEpoch, {{1, 4}})},
      {"Switch 1.5", Tell(&ElasticSlots::OnSwitchEpoch, {{1, 5}})},
      {"Stop 1.4", Tell(&ElasticSlots::OnStopEpoch, {{1, 4}, 500})},
      {"Stop 1.5", Tell(&ElasticSlots::OnStopEpoch, {{1, 5}, 500})},
      {"Release 1.4", Tell(&ElasticSlots::OnRelease, {{1, 4}})},
      {"Release 1.5", Tell(&ElasticSlots::OnRelease, {{1, 5}})},
      {"StoreValues 1.4", Tell(&ElasticSlots::OnStoreValues, {{1, 4}, 1, 1, {}})},
      {"StoreValues 1.5", Tell(&ElasticSlots::OnStoreValues, {{1, 5}, 1, 1, {}})},
      {"hello", [](auto& slots) { slots.OnRankHello(0); }},
      {"done 1.5", Says(control::RankDone{{1, 5}, 1})},
      {"boundary 1.5", Says(control::RankAtBoundary{{1, 5}, 1, 7})},
      {"broken 1.5", Says(control::RankBroken{{1, 5}, 1, 0, ""})},
      {"progress 1.5", Says(control::RankProgress{{1, 5}, {}})},
      {"set 1.5", Says(control::StoreSet{{1, 5}, "k", "v"})},
      {"get 1.5", Says(control::StoreGet{{1, 5}, 1, 1, {"k"}})},
      {"done 1.4", Says(control::RankDone{{1, 4}, 1})},
      {"being killed", [](auto& slots) { slots.OnRankKilled(0, {}); }},
      {"killed", Ends({-1, SIGKILL})},
      {"exit 0", Ends({0, 0})},
      {"exit 2", Ends({2, 0})},
      {"restart due", [](auto& slots) { slots.OnRestartDue(0); }},
      {"welcome", [](auto& slots) { EXPECT_TRUE(slots.OnWelcome(1)); }},
      {"attach", [](auto& slots) { slots.OnAttach(7, TestAttach(1, 0)); }},
      {"leave", [](auto& slots) { (void)slots.Leave("asked"); }},
      {"end", [](auto& slots) { slots.End(milliseconds(10)); }},
  };
}

// Returns whether the event is possible: events of a process need a process that runs.
bool CanHappen(const std::string& state, const std::string& event) {
  const bool runs = state != "waits" && state != "given up";
  const bool of_process = event.ends_with(" 1.5") && event[0] >= 'a' && event[0] <= 'z';
  const bool ends = event == "being killed" || event == "exit 0" || event == "exit 2";
  const bool needs_process =
      of_process || ends || event == "killed" || event == "hello" || event == "done 1.4";
  const bool speaks = state != "loads" && state != "chosen";  // false: the rank sends only hello
  if (state == "being killed" && ends) return false;
  if (event == "restart due") return state == "waits";
  if (event == "hello") return !speaks;
  if (of_process || event == "done 1.4") return runs && speaks;
  return runs || !needs_process;
}

using Row = std::map<std::string, std::string>;  // by state
const std::map<std::string, Row>& Table();

TEST(ElasticTable, EveryEventInEveryState) {
  std::size_t listed = 0;
  std::size_t done = 0;
  for (const auto& [event, row] : Table()) listed += row.size();
  for (const Event& event : Events()) {
    for (const State& state : States()) {
      if (!CanHappen(state.name, event.name)) continue;
      FakeSlotActions actions;
      ElasticSlots slots(TestSlotsOptions(1, true), &actions);
      slots.Preload();
      ASSERT_TRUE(slots.OnWelcome(1));
      state.apply(slots);
      actions.Done();

      event.apply(slots);

      const std::string did = actions.Done();
      if (!did.empty()) ++done;
      const auto row = Table().find(event.name);
      const bool in_table = row != Table().end() && row->second.contains(state.name);
      EXPECT_EQ(did, in_table ? row->second.at(state.name) : "")
          << event.name << " in the state '" << state.name << "'";
    }
  }
  EXPECT_EQ(done, listed) << "the table lists a cell that cannot happen";
}

const std::map<std::string, Row>& Table() {
  static const std::map<std::string, Row> table = {
      {"Prepare 1.4",
       {{"loads", "launcher:EpochAccepted 1.4"}, {"ready", "launcher:EpochAccepted 1.4"}}},
      {"Prepare 1.9",
       {{"loads", "launcher:EpochAccepted 1.9"},
        {"ready", "launcher:EpochAccepted 1.9"},
        {"chosen", "launcher:EpochAccepted 1.9"},
        {"in world", "rank:RankLeave 1.9, launcher:EpochAccepted 1.9"},
        {"told to leave", "rank:RankLeave 1.9, launcher:EpochAccepted 1.9"},
        {"stopping", "rank:RankLeave 1.9, launcher:EpochAccepted 1.9"},
        {"released", "rank:RankLeave 1.9, launcher:EpochAccepted 1.9"},
        {"being killed", "launcher:EpochAccepted 1.9"},
        {"waits", "launcher:EpochAccepted 1.9"},
        {"given up", "launcher:EpochAccepted 1.9"},
        {"leaving", "rank:RankLeave 1.9, launcher:EpochAccepted 1.9"},
        {"ending", "rank:RankLeave 1.9, launcher:EpochAccepted 1.9"}}},
      {"Start 1.4", {{"ready", "rank:RankEpoch 1.4"}}},
      {"Start 1.9 of n-1",
       {{"ready", "rank:RankEpoch 1.9"},
        {"in world", "rank:RankEpoch 1.9"},
        {"told to leave", "rank:RankEpoch 1.9"},
        {"released", "rank:RankEpoch 1.9"},
        {"waits", "launcher:RankExited 1.9 code 1"},
        {"given up", "launcher:RankExited 1.9 code 2"},
        {"leaving", "rank:RankEpoch 1.9"}}},
      {"Start 1.9 of anybody",
       {{"ready", "rank:RankEpoch 1.9"},
        {"in world", "rank:RankEpoch 1.9"},
        {"told to leave", "rank:RankEpoch 1.9"},
        {"released", "rank:RankEpoch 1.9"},
        {"given up", "launcher:RankExited 1.9 code 2"},
        {"leaving", "rank:RankEpoch 1.9"}}},
      {"Switch 1.5",
       {{"in world", "rank:RankSwitch 1.5"},
        {"stopping", "rank:RankSwitch 1.5"},
        {"released", "rank:RankSwitch 1.5"},
        {"leaving", "rank:RankSwitch 1.5"},
        {"ending", "rank:RankSwitch 1.5"}}},
      {"Stop 1.5",
       {{"in world", "stop"},
        {"told to leave", "stop"},
        {"stopping", "stop"},
        {"released", "stop"},
        {"being killed", "stop"},
        {"given up", "start"},
        {"leaving", "stop"},
        {"ending", "stop"}}},
      {"Release 1.5",
       {{"in world", "rank:Release 1.5"},
        {"stopping", "rank:Release 1.5"},
        {"released", "rank:Release 1.5"},
        {"being killed", "rank:Release 1.5"},
        {"leaving", "rank:Release 1.5"},
        {"ending", "rank:Release 1.5"}}},
      {"StoreValues 1.5",
       {{"in world", "rank:StoreValues 1.5"},
        {"told to leave", "rank:StoreValues 1.5"},
        {"stopping", "rank:StoreValues 1.5"},
        {"released", "rank:StoreValues 1.5"},
        {"being killed", "rank:StoreValues 1.5"},
        {"leaving", "rank:StoreValues 1.5"},
        {"ending", "rank:StoreValues 1.5"}}},
      {"hello",
       {{"loads", "launcher:RankReady n-1"},
        {"chosen", "launcher:RankReady n-1, rank:RankEpoch 1.5"}}},
      {"done 1.5",
       {{"in world", "launcher:RankDone 1.5"},
        {"told to leave", "launcher:RankDone 1.5"},
        {"stopping", "launcher:RankDone 1.5"},
        {"released", "launcher:RankDone 1.5"},
        {"being killed", "launcher:RankDone 1.5"},
        {"leaving", "launcher:RankDone 1.5"},
        {"ending", "launcher:RankDone 1.5"}}},
      {"boundary 1.5",
       {{"in world", "launcher:RankAtBoundary 1.5"},
        {"told to leave", "launcher:RankAtBoundary 1.5"},
        {"stopping", "launcher:RankAtBoundary 1.5"},
        {"released", "launcher:RankAtBoundary 1.5"},
        {"being killed", "launcher:RankAtBoundary 1.5"},
        {"leaving", "launcher:RankAtBoundary 1.5"},
        {"ending", "launcher:RankAtBoundary 1.5"}}},
      {"broken 1.5",
       {{"in world", "launcher:RankBroken 1.5"},
        {"told to leave", "launcher:RankBroken 1.5"},
        {"stopping", "launcher:RankBroken 1.5"},
        {"released", "launcher:RankBroken 1.5"},
        {"being killed", "launcher:RankBroken 1.5"},
        {"leaving", "launcher:RankBroken 1.5"},
        {"ending", "launcher:RankBroken 1.5"}}},
      {"progress 1.5",
       {{"in world", "launcher:RankProgress 1.5"},
        {"told to leave", "launcher:RankProgress 1.5"},
        {"stopping", "launcher:RankProgress 1.5"},
        {"released", "launcher:RankProgress 1.5"},
        {"being killed", "launcher:RankProgress 1.5"},
        {"leaving", "launcher:RankProgress 1.5"},
        {"ending", "launcher:RankProgress 1.5"}}},
      {"set 1.5",
       {{"in world", "launcher:StoreSet 1.5"},
        {"told to leave", "launcher:StoreSet 1.5"},
        {"stopping", "launcher:StoreSet 1.5"},
        {"released", "launcher:StoreSet 1.5"},
        {"being killed", "launcher:StoreSet 1.5"},
        {"leaving", "launcher:StoreSet 1.5"},
        {"ending", "launcher:StoreSet 1.5"}}},
      {"get 1.5",
       {{"in world", "launcher:StoreGet 1.5"},
        {"told to leave", "launcher:StoreGet 1.5"},
        {"stopping", "launcher:StoreGet 1.5"},
        {"released", "launcher:StoreGet 1.5"},
        {"being killed", "launcher:StoreGet 1.5"},
        {"leaving", "launcher:StoreGet 1.5"},
        {"ending", "launcher:StoreGet 1.5"}}},
      {"being killed",
       {{"in world", "launcher:RankExited 1.5 signal 9"},
        {"told to leave", "launcher:RankExited 1.5 signal 9"},
        {"leaving", "launcher:RankExited 1.5 signal 9"}}},
      {"killed",
       {{"loads", "launcher:RankExited 0.0 signal 9, start"},
        {"ready", "launcher:RankExited 0.0 signal 9, start"},
        {"chosen", "launcher:RankExited 1.5 signal 9, start"},
        {"in world", "launcher:RankExited 1.5 signal 9, start"},
        {"told to leave", "launcher:RankExited 1.5 signal 9, start"},
        {"stopping", "launcher:RankExited 1.5 signal 9, start"},
        {"released", "launcher:RankExited 1.5 signal 9"},
        {"being killed", "launcher:RankExited 1.5 signal 9, start"},
        {"leaving", "launcher:RankExited 1.5 signal 9"},
        {"ending", "launcher:RankExited 1.5 signal 9"}}},
      {"exit 0",
       {{"loads", "launcher:RankExited 0.0 code 0"},
        {"ready", "launcher:RankExited 0.0 code 0"},
        {"chosen", "launcher:RankExited 1.5 code 0"},
        {"in world", "launcher:RankExited 1.5 code 2"},
        {"told to leave", "launcher:RankExited 1.5 code 2"},
        {"stopping", "launcher:RankExited 1.5 code 0, start"},
        {"released", "launcher:RankExited 1.5 code 0"},
        {"leaving", "launcher:RankExited 1.5 code 2"},
        {"ending", "launcher:RankExited 1.5 code 0"}}},
      {"exit 2",
       {{"loads", "launcher:RankExited 0.0 code 2"},
        {"ready", "launcher:RankExited 0.0 code 2"},
        {"chosen", "launcher:RankExited 1.5 code 2"},
        {"in world", "launcher:RankExited 1.5 code 2"},
        {"told to leave", "launcher:RankExited 1.5 code 2"},
        {"stopping", "launcher:RankExited 1.5 code 2, start"},
        {"released", "launcher:RankExited 1.5 code 2"},
        {"leaving", "launcher:RankExited 1.5 code 2"},
        {"ending", "launcher:RankExited 1.5 code 2"}}},
      {"restart due", {{"waits", "start"}}},
      {"welcome",
       {{"ready", "launcher:RankReady n-1"},
        {"chosen", "launcher:WorldReport 1.5"},
        {"in world", "launcher:RankReady n-1, launcher:WorldReport 1.5"},
        {"told to leave",
         "launcher:RankReady n-1, launcher:WorldReport 1.5, launcher:EpochAccepted 1.6"},
        {"stopping", "launcher:WorldReport 1.5"},
        {"released", "launcher:RankReady n-1, launcher:WorldReport 1.5"},
        {"being killed", "launcher:WorldReport 1.5"},
        {"waits", "launcher:WorldReport 1.5, launcher:RankExited 1.5 code 1"},
        {"given up", "launcher:WorldReport 1.5, launcher:RankExited 1.5 code 2"},
        {"leaving", "launcher:RankReady n-1, launcher:WorldReport 1.5, launcher:AgentLeaving"},
        {"ending", "launcher:WorldReport 1.5"}}},
      {"attach",
       {{"loads", "launcher:SlotAttached"},
        {"ready", "launcher:SlotAttached"},
        {"chosen", "launcher:SlotAttached, attach:AttachGo 1.5"},
        {"in world", "launcher:SlotAttached, attach:AttachGo 1.5"},
        {"told to leave", "launcher:SlotAttached, attach:AttachGo 1.5"},
        {"stopping", "launcher:SlotAttached, attach:AttachGo 1.5"},
        {"released", "launcher:SlotAttached, attach:AttachGo 1.5"},
        {"being killed", "launcher:SlotAttached, attach:AttachGo 1.5"},
        {"waits", "launcher:SlotAttached"},
        {"given up", "launcher:SlotAttached"},
        {"leaving", "launcher:SlotAttached, attach:AttachGo 1.5"},
        {"ending", "launcher:SlotAttached, attach:AttachGo 1.5"}}},
      {"leave",
       {{"loads", "launcher:AgentLeaving"},
        {"ready", "launcher:AgentLeaving"},
        {"chosen", "launcher:AgentLeaving"},
        {"in world", "launcher:AgentLeaving"},
        {"told to leave", "launcher:AgentLeaving"},
        {"stopping", "launcher:AgentLeaving"},
        {"released", "launcher:AgentLeaving"},
        {"being killed", "launcher:AgentLeaving"},
        {"waits", "launcher:AgentLeaving"},
        {"given up", "launcher:AgentLeaving"},
        {"leaving", "launcher:AgentLeaving"},
        {"ending", "launcher:AgentLeaving"}}},
      {"end",
       {{"loads", "stop"},
        {"ready", "stop"},
        {"chosen", "stop"},
        {"in world", "stop"},
        {"told to leave", "stop"},
        {"stopping", "stop"},
        {"released", "stop"},
        {"being killed", "stop"},
        {"leaving", "stop"},
        {"ending", "stop"}}},
  };
  return table;
}

}  // namespace
}  // namespace ringmaster::agent
