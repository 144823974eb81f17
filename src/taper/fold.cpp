#include "taper/fold.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/error.h"
#include "core/random.h"
#include "kernels/folded_weight.h"

namespace taper {
namespace {

// c * gamma~ of one norm, in double.
std::vector<double> fold_factors(const Checkpoint& checkpoint, const NormSite& site) {
  const std::string& what = checkpoint.what();
  const float c = to_float32(checkpoint.tensors().at(site.taper_scale())).at(0);
  if (!std::isfinite(c) || c <= 0) {
    throw NumericsError(
        fmt::format("{}: {} is {}, expected a positive number", what, site.taper_scale(), c));
  }
  const std::vector<float> gamma = to_float32(checkpoint.tensors().at(site.taper_weight()));
  std::vector<double> factors(gamma.size());
  for (size_t i = 0; i < gamma.size(); ++i) {
    if (!std::isfinite(gamma[i]))
      throw NumericsError(fmt::format("{}: {}[{}] is {}", what, site.taper_weight(), i, gamma[i]));
    factors[i] = static_cast<double>(c) * static_cast<double>(gamma[i]);
  }
  return factors;
}

// The weight with the factors multiplied in, in double and rounded once.
void fold_rows(const TensorView& weight, const std::vector<double>& factors, std::span<float> out,
               const std::string& file) {
  const std::vector<float> values = to_float32(weight);
  const size_t width = factors.size();
  TAPER_CHECK(values.size() == out.size() && values.size() % width == 0);
  std::vector<double> row(width);
  for (size_t begin = 0; begin < values.size(); begin += width) {
    std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(begin), width, row.begin());
    fold_weight<double>({0, 1}, static_cast<int64_t>(width), row.data(), factors.data(),
                        row.data());
    for (size_t i = 0; i < width; ++i) {
      out[begin + i] = static_cast<float>(row[i]);
      if (!std::isfinite(out[begin + i]))
        throw NumericsError(fmt::format("{}: folding makes {}[{}, {}] {} (it was {})", file,
                                        weight.name, begin / width, i, out[begin + i],
                                        values[begin + i]));
    }
  }
}

}  // namespace

FoldPlan plan_fold(const ModelConfig& config, const TaperState& taper, const std::string& what) {
  check_taper_state(config, taper, what);
  if (taper.tapered.empty()) {
    if (!taper.folded.empty())
      throw ConfigError(what + ": nothing to fold, all tapered norms are folded already");
    throw ConfigError(fmt::format("{}: no norm is tapered (scope \"{}\", phase \"{}\")", what,
                                  to_string(taper.scope), taper.phase),
                      taper.phase == "warmup"
                          ? "train on: the taper has not started yet"
                          : "train it with taper.scope = \"internal\" or \"all\" first");
  }
  if (taper.gate != 0) {
    throw ConfigError(
        fmt::format("{}: the gate stands at {:.4g}, and only a model at gate 0 can be folded", what,
                    taper.gate),
        "train on to the end of the taper (taper.end), then fold");
  }
  FoldPlan plan;
  plan.config = config;
  plan.taper = taper;
  for (NormSite& site : norm_sites(config)) {
    if (std::find(taper.tapered.begin(), taper.tapered.end(), site.name) == taper.tapered.end())
      continue;
    plan.unties_head |= site.is_final() && config.tied_head;
    plan.taper.folded.push_back(site.name);
    plan.steps.push_back({std::move(site), {}});
  }
  plan.config.tied_head = config.tied_head && !plan.unties_head;
  const Architecture folded(plan.config);
  for (FoldStep& step : plan.steps) step.readers = folded.readers(step.site.index);
  plan.taper.tapered.clear();
  plan.taper.phase = "folded";
  plan.taper.source = Json{{"command", "fold"}, {"from", taper.source}};
  return plan;
}

FoldedModel fold(const Checkpoint& checkpoint) {
  FoldedModel folded;
  folded.plan = plan_fold(checkpoint.config(), checkpoint.taper(), checkpoint.what());
  const auto tensors = std::make_shared<TensorSet>();
  tensors->keep(checkpoint.shared_tensors());

  // The factors of each weight of the folded model that changes.
  std::map<std::string, std::vector<double>> factors;
  for (const FoldStep& step : folded.plan.steps) {
    const std::vector<double> values = fold_factors(checkpoint, step.site);
    for (const Place& reader : step.readers) {
      const bool first = factors.emplace(weight_name(folded.plan.config, reader), values).second;
      TAPER_CHECK(first);  // a weight reads one norm
    }
  }
  const std::string embedding = weight_name(checkpoint.config(), {Slot::kEmbedding});
  const std::string head = weight_name(checkpoint.config(), {Slot::kHead});
  for (const TensorSpec& spec : expected_tensors(folded.plan.config, folded.plan.taper)) {
    const bool copied_head = spec.name == head && folded.plan.unties_head;
    const TensorView& tensor = checkpoint.tensors().at(copied_head ? embedding : spec.name);
    const auto it = factors.find(spec.name);
    if (it == factors.end()) {
      tensors->add_view(tensor);
      continue;
    }
    fold_rows(tensor, it->second, tensors->add(spec.name, spec.shape), checkpoint.what());
    folded.changed.push_back(spec.name);
    factors.erase(it);
  }
  TAPER_CHECK(factors.empty());  // every reader absorbed its norm
  folded.tensors = tensors;
  return folded;
}

std::shared_ptr<const TensorSet> with_rounding_noise(const FoldedModel& folded, uint64_t seed) {
  const auto noisy = std::make_shared<TensorSet>();
  noisy->keep(folded.tensors);
  uint64_t stream = 0;
  for (const TensorView& view : folded.tensors->views()) {
    if (std::find(folded.changed.begin(), folded.changed.end(), view.name) ==
        folded.changed.end()) {
      noisy->add_view(view);
      continue;
    }
    Random random(seed, stream++);
    const std::vector<float> values = to_float32(view);
    const std::span<float> out = noisy->add(view.name, view.shape);
    for (size_t i = 0; i < values.size(); ++i) {
      const bool up = (random.next_u32() & 1) != 0;
      out[i] = std::nextafter(values[i], up ? HUGE_VALF : -HUGE_VALF);
    }
  }
  return noisy;
}

}  // namespace taper
