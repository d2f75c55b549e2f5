// Compares the head with plain PyTorch (make_reference.py): the loss, and the gradients of
// embeddings and centres, on one, two and three ranks.

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <mutex>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/paths.h"
#include "tests/unit/trainer/partial_fc/communicator_collectives.h"
#include "tests/unit/trainer/partial_fc/head_devices.h"
#include "tests/unit/trainer/training_world.h"
#include "worker/trainer/partial_fc/head.h"

namespace ringmaster::trainer::partial_fc {
namespace {

constexpr double kTolerance = 1e-5;  // error, relative to the greatest value

struct Reference {
  explicit Reference(const nlohmann::json& json) {
    const auto get = [&](const char* field, auto& value) { json.at(field).get_to(value); };
    get("name", name);
    get("sampled", sampled);
    get("labels", labels);
    get("embeddings", embeddings);
    get("centres", centres);
    get("loss", loss);
    get("embedding_gradients", embedding_gradients);
    get("centre_gradients", centre_gradients);
    get("step", step);
    std::array<float, 3> margin{};
    get("margin", margin);
    head.margin = {.m1 = margin[0], .m2 = margin[1], .m3 = margin[2]};
    get("scale", head.margin.scale);
    get("classes", head.classes);
    get("dimension", head.dimension);
    get("seed", head.sampling.seed);
    get("rate", head.sampling.rate);
    head.learning_rate = [](int64_t) { return 1.0; };
    head.momentum = 0;
    head.weight_decay = 0;
  }

  std::string name;
  HeadOptions head;
  std::vector<int64_t> sampled, labels;
  std::vector<float> embeddings, centres;
  double loss = 0;
  std::vector<double> embedding_gradients, centre_gradients;
  int64_t step = 0;
};

std::vector<Reference> References() {
  std::ifstream file(FromBuild(RINGMASTER_PARTIAL_FC_REFERENCE));
  std::vector<Reference> references;
  for (const auto& json : nlohmann::json::parse(file)) references.emplace_back(json);
  return references;
}

// The results of all ranks of a world.
struct Computed {
  std::mutex mutex;
  double loss = 0;
  std::vector<double> embedding_gradients, centre_gradients;
  std::vector<int64_t> sampled;
};

void RunRank(const Reference& reference, std::shared_ptr<HeadDevice> device, const World& world,
             Computed& computed) {
  AbandonedConnects abandoned_connects;
  auto communicator = TestCommunicators(abandoned_connects)(world, In(std::chrono::seconds(60)));
  ASSERT_TRUE(communicator.ok());
  const int64_t width = reference.head.dimension;
  CentreTable table({.head = reference.head, .device = std::move(device)});
  const auto load = [&](const StateVersion&, int64_t begin, int64_t end,
                        std::span<float> values) -> Result<void> {
    Rows rows({begin, end}, width);
    for (int64_t row = begin; row < end; ++row) {
      std::copy_n(reference.centres.begin() + row * width, width, rows.centre(row));
      std::fill_n(rows.momentum(row), width, 0.0F);
    }
    std::ranges::copy(rows.values(), values.begin());
    return {};
  };
  const LocalState held{.version = {.epoch = {1, 1}, .step = reference.step},
                        .term_base = 0,
                        .origin = StateOrigin::kCheckpoint};
  const auto synced =
      table.Sync({.communicator = **communicator, .world = world, .adopted = held, .load = load});
  ASSERT_TRUE(synced.ok()) << synced.error().message;
  CommunicatorCollectives others(**communicator);
  const Share share =
      ShareOf(world.rank, world.size, static_cast<int64_t>(reference.labels.size()));
  const auto mine = std::span(reference.embeddings)
                        .subspan(static_cast<std::size_t>(share.begin * width),
                                 static_cast<std::size_t>(share.size() * width));
  std::vector<float> gradients(mine.size());
  Head head(table);

  const auto loss = head.Forward(reference.step, reference.labels, share, mine, others);
  ASSERT_TRUE(loss.ok()) << loss.error().message;
  const auto backward = head.Backward(gradients, others);
  ASSERT_TRUE(backward.ok()) << backward.error().message;
  const std::vector<int64_t> sampled = table.step().sampled();
  table.Applied({.version = held.Next(world.epoch)});

  const std::lock_guard lock(computed.mutex);
  computed.loss += *loss;
  computed.sampled.insert(computed.sampled.end(), sampled.begin(), sampled.end());
  std::ranges::copy(gradients, computed.embedding_gradients.begin() + share.begin * width);
  const ClassRange rows = table.rows().range();
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    std::copy_n(table.rows().momentum(row), width, computed.centre_gradients.begin() + row * width);
  }
}

void ExpectNear(const std::vector<double>& actual, const std::vector<double>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  double greatest = 0;
  for (const double value : expected) greatest = std::max(greatest, std::abs(value));
  for (std::size_t i = 0; i < actual.size(); ++i) {
    EXPECT_NEAR(actual[i], expected[i], kTolerance * greatest) << i;
  }
}

class PartialFcReference : public testing::TestWithParam<HeadMaker> {};
INSTANTIATE_TEST_SUITE_P(On, PartialFcReference, kHeadDevices, NameOfHeadDevice);

TEST_P(PartialFcReference, LossAndGradientsAreThoseOfPyTorchOnOneTwoAndThreeRanks) {
  const std::vector<Reference> references = References();
  ASSERT_EQ(references.size(), 7U);
  for (const Reference& reference : references) {
    for (const int size : {1, 2, 3}) {
      SCOPED_TRACE(reference.name + " on " + std::to_string(size) + " ranks");
      Computed computed;
      computed.embedding_gradients.resize(reference.embeddings.size());
      computed.centre_gradients.resize(reference.centres.size());

      RunRanks(size,
               [&](const World& world) { RunRank(reference, GetParam()(), world, computed); });

      EXPECT_NEAR(computed.loss / reference.loss, 1, kTolerance);
      ExpectNear(computed.embedding_gradients, reference.embedding_gradients);
      ExpectNear(computed.centre_gradients, reference.centre_gradients);
      std::ranges::sort(computed.sampled);
      EXPECT_EQ(computed.sampled, reference.sampled);
    }
  }
}

}  // namespace
}  // namespace ringmaster::trainer::partial_fc
