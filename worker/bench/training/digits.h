#pragma once

// Labelled images that all trainings of a process share. All images are drawn or unpacked in
// advance, so that the time of a training does not depend on earlier ones.

#include <cstdint>
#include <memory>
#include <string>

#include "worker/trainer/data/dataset.h"

namespace ringmaster::bench {

class Digits {
 public:
  // `data` is a folder of IDX files, or "generated": `samples` of them, a quarter of it held out.
  static Result<Digits> Load(const std::string& data, int64_t samples);

  // Reads this object's memory, which goes with it.
  trainer::Dataset dataset() const;
  int64_t training_size() const;

 private:
  struct Images;
  class View;
  std::shared_ptr<const Images> training_;
  std::shared_ptr<const Images> held_out_;
};

}  // namespace ringmaster::bench
