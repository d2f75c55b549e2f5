#pragma once

// Computes the results of an Audit after all logs are read. Private to audit.cc.

#include <optional>
#include <string>
#include <vector>

#include "worker/audit/audit.h"

namespace ringmaster::audit {

// Counts a finding of this `kind`, and keeps its sentence unless kMostSentences are kept already.
void Note(Findings& findings, int64_t Findings::*kind, const std::string& sentence,
          int64_t count = 1);

// Formats an epoch as "term.number".
std::string Text(Epoch epoch);

class Conclusion {
 public:
  // `audit` must outlive the object.
  explicit Conclusion(const Audit& audit);

  Report Draw(std::optional<int64_t> expected_steps);

 private:
  // Returns false if no log shows how the lineage reached this world. Draw() then stops.
  bool Adopt(const Audit::WorldRecord& world);
  void AdoptAnotherRuns(const Audit::WorldRecord& world);
  bool OfAnotherRun(int64_t step) const;
  void CheckAdopted(const Audit::WorldRecord& world);
  void CheckSharded(const Audit::WorldRecord& world);
  // Returns the sum of all ranks' shards after a step of the world; empty if one was not logged.
  static std::optional<uint64_t> SumOfParts(const Audit::WorldRecord& world,
                                            const Audit::RankSteps& ranks);
  void Follow(Epoch epoch, const Audit::WorldRecord& world);
  // Checks one step, and keeps its checksum.
  void CheckStep(int64_t step, Epoch epoch);
  void CheckSamples(const std::string& name, const Audit::WorldRecord& world,
                    const Audit::RankSteps& ranks, int64_t step);
  void CheckEnd(std::optional<int64_t> expected_steps);
  std::vector<Segment> Schedule() const;

  const Audit& audit_;
  Findings findings_;
  std::vector<Epoch> lineage_;       // epochs of steps 1, 2, …
  int64_t committed_ = 0;            // number of steps of the lineage that are committed
  int64_t inherited_ = 0;            // number of these steps that another run computed
  uint64_t inherited_checksum_ = 0;  // checksum of the state after the inherited steps
  std::optional<uint64_t> initial_;  // checksum of the state before step 1
  std::vector<std::optional<uint64_t>> states_;
};

}  // namespace ringmaster::audit
