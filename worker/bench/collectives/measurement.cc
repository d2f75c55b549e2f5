#include "worker/bench/collectives/measurement.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>

#include <ATen/ATen.h>

#include "worker/bench/collectives/check_data.h"

namespace ringmaster::bench {
namespace {

using trainer::Elements;

// What the ranks have, added up over them.
template <typename T>
Result<T> SumOverRanks(Backend& backend, T mine, trainer::ElementType type) {
  Elements value(reinterpret_cast<std::byte*>(&mine), 1, type);
  const Result<void> summed = backend.Run({.collective = Collective::kAllReduce,
                                           .op = trainer::ReduceOp::kSum,
                                           .root = 0,
                                           .send = value,
                                           .receive = value});
  if (!summed.ok()) return summed.error();
  return mine;
}

// The two buffers of the largest call, once: pages that are touched first are not part of a time.
class Buffers {
 public:
  Buffers(std::size_t bytes, const std::string& device)
      : send_(at::zeros({static_cast<int64_t>(bytes)},
                        at::TensorOptions().dtype(at::kByte).device(at::Device(device)))),
        receive_(at::zeros_like(send_)) {}

  Call CallOf(const Sweepings& sweep, const Counts& counts, const Row& row, int rank,
              bool in_place) const {
    auto* const send = static_cast<std::byte*>(send_.data_ptr());
    auto* const receive = static_cast<std::byte*>(receive_.data_ptr());
    Call call{.collective = sweep.collective,
              .op = row.op,
              .root = sweep.root,
              .send = Elements(send, counts.send, row.type),
              .receive = Elements(receive, counts.receive, row.type)};
    if (!in_place) return call;
    // The smaller buffer is this rank's piece of the larger one.
    const std::size_t piece = SizeOf(row.type) * counts.unit * static_cast<std::size_t>(rank);
    call.receive.data = send + (counts.receive < counts.send ? piece : 0);
    call.send.data = send + (counts.send < counts.receive ? piece : 0);
    return call;
  }

  // All of it, between devices; done when it returns.
  void CopyFrom(const Buffers& other) {
    send_.copy_(other.send_);
    receive_.copy_(other.receive_);
  }

 private:
  at::Tensor send_;
  at::Tensor receive_;
};

// What is measured, and the same on the host, where it is filled and checked.
class Memory {
 public:
  Memory(std::size_t bytes, const std::string& device) : measured_(bytes, device) {
    if (device != "cpu") host_.emplace(bytes, "cpu");
  }

  const Buffers& measured() const { return measured_; }
  const Buffers& on_host() const { return host_ ? *host_ : measured_; }
  void Push() {
    if (host_) measured_.CopyFrom(*host_);
  }
  void Pull() {
    if (host_) host_->CopyFrom(measured_);
  }

 private:
  Buffers measured_;
  std::optional<Buffers> host_;  // nothing: measured_ is there
};

class Measuring {
 public:
  Measuring(Backend& backend, const Sweepings& sweep, const Clock& clock)
      : backend_(backend),
        sweep_(sweep),
        clock_(clock),
        memory_(static_cast<std::size_t>(*std::ranges::max_element(sweep.sizes)),
                backend.device()) {}

  // Nothing where no element fits.
  Result<std::vector<Row>> RowOf(int64_t bytes, trainer::ElementType type, trainer::ReduceOp op) {
    const Counts counts =
        CountsOf(sweep_.collective, static_cast<std::size_t>(bytes), SizeOf(type), backend_.size());
    if (counts.most() == 0) return std::vector<Row>();
    Row row{.bytes = static_cast<int64_t>(counts.most() * SizeOf(type)),
            .count = counts.unit,
            .type = type,
            .op = op,
            .out_of_place = {},
            .in_place = {}};
    for (const bool in_place : {false, true}) {
      const auto call_on = [&](const Buffers& buffers) {
        return buffers.CallOf(sweep_, counts, row, backend_.rank(), in_place);
      };
      const Result<Timing> timing =
          Time(call_on(memory_.measured()), call_on(memory_.on_host()), row.bytes);
      if (!timing.ok()) return timing.error();
      (in_place ? row.in_place : row.out_of_place) = *timing;
    }
    return std::vector<Row>{row};
  }

 private:
  Result<Timing> Time(const Call& call, const Call& on_host, int64_t bytes) {
    Timing timing;
    const CheckedCall checked{.call = on_host, .rank = backend_.rank(), .ranks = backend_.size()};
    Fill(checked);
    memory_.Push();
    if (Result<void> warm = Repeat(call, sweep_.warm_up); !warm.ok()) return warm.error();
    if (Result<void> met = backend_.Barrier(); !met.ok()) return met.error();
    const auto begin = clock_.Now();
    if (Result<void> run = Repeat(call, sweep_.iterations); !run.ok()) return run.error();
    const std::chrono::duration<double, std::micro> took = clock_.Now() - begin;
    const Result<double> total =
        SumOverRanks(backend_, took.count(), trainer::ElementType::kFloat64);
    if (!total.ok()) return total.error();
    timing.micros = *total / backend_.size() / sweep_.iterations;
    timing.algorithm = static_cast<double>(bytes) / timing.micros / 1e3;
    timing.bus = timing.algorithm * BusFactor(sweep_.collective, backend_.size());
    if (!sweep_.check) return timing;

    // Anew: an in-place operation has reduced its own results until now.
    Fill(checked);
    memory_.Push();
    if (Result<void> run = Repeat(call, 1); !run.ok()) return run.error();
    memory_.Pull();
    const Result<int64_t> wrong =
        SumOverRanks(backend_, CountWrong(checked), trainer::ElementType::kInt64);
    if (!wrong.ok()) return wrong.error();
    timing.wrong = *wrong;
    return timing;
  }

  Result<void> Repeat(const Call& call, int times) {
    for (int i = 0; i < times; ++i) {
      if (Result<void> done = backend_.Run(call); !done.ok()) return done;
    }
    return {};
  }

  Backend& backend_;
  const Sweepings& sweep_;
  const Clock& clock_;
  Memory memory_;
};

}  // namespace

Result<std::vector<Row>> Measure(Backend& backend, const Sweepings& sweep, const Clock& clock,
                                 const std::function<void(const Row&)>& report) {
  std::vector<Row> rows;
  Measuring measuring(backend, sweep, clock);
  for (const trainer::ElementType type : sweep.types) {
    for (const trainer::ReduceOp op : sweep.ops) {
      if (!backend.Supports(type, op)) continue;
      for (const int64_t bytes : sweep.sizes) {
        const Result<std::vector<Row>> row = measuring.RowOf(bytes, type, op);
        if (!row.ok()) return row.error();
        for (const Row& each : *row) report(each);
        rows.insert(rows.end(), row->begin(), row->end());
      }
    }
  }
  return rows;
}

}  // namespace ringmaster::bench
