#include "train/bench_subject.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "core/random.h"
#include "core/timing.h"

namespace taper {

namespace {

// A gradient this much smaller than the largest one is compared in its units.
constexpr double kSmallGradient = 1e-3;

std::vector<int64_t> random_ids(const BenchShape& shape, uint64_t seed) {
  Random random(seed, 1);
  std::vector<int64_t> ids(static_cast<size_t>(shape.tokens()));
  for (int64_t& id : ids)
    id = static_cast<int64_t>(random.below(static_cast<uint64_t>(shape.model.vocab_size)));
  return ids;
}

Batch part_of(const Batch& batch, int64_t windows, int64_t tokens) {
  Batch part{std::min(windows, batch.rows), std::min(tokens, batch.window), {}, {}};
  for (int64_t row = 0; row < part.rows; ++row)
    for (const auto member : {&Batch::inputs, &Batch::targets}) {
      const auto from = (batch.*member).begin() + row * batch.window;
      (part.*member).insert((part.*member).end(), from, from + part.window);
    }
  return part;
}

template <typename R>
PassSums run(TrainingPass<R>& pass, BenchNorm norm, const Batch& batch) {
  PassOptions options;
  options.gate = gate_of(norm);
  options.backward = true;
  options.loss_weight = 1 / static_cast<double>(batch.rows * batch.window);
  return pass.run(batch.view(), options);
}

double norm_of(std::span<const float> values) {
  double squares = 0;
  for (const double value : values) squares += value * value;
  return std::sqrt(squares);
}

template <typename R>
std::span<R> part(std::span<R> all, Range range) {
  return all.subspan(static_cast<size_t>(range.begin), static_cast<size_t>(range.size()));
}

}  // namespace

BenchNorm parse_bench_norm(const std::string& text) {
  if (text == "plain") return BenchNorm::kPlain;
  if (text == "taper") return BenchNorm::kTaper;
  if (text == "settled") return BenchNorm::kSettled;
  throw ConfigError(fmt::format("no norm state is called {}", text), "use plain, taper or settled");
}

double gate_of(BenchNorm norm) {
  return norm == BenchNorm::kPlain ? 1 : norm == BenchNorm::kTaper ? 0.5 : 0;
}

void StepDifference::note(const std::string& tensor, double error) {
  if (!std::isfinite(error)) error = std::numeric_limits<double>::infinity();
  if (error <= gradient) return;
  gradient = error;
  worst = tensor;
}

StepDifference difference(const StepNumbers& ours, const StepNumbers& theirs) {
  StepDifference result;
  result.loss = std::abs(ours.loss / theirs.loss - 1);
  double largest = 0;
  for (const auto& [name, norm] : theirs.gradient_norms) largest = std::max(largest, norm);
  for (const auto& [name, norm] : ours.gradient_norms) {
    const auto it = theirs.gradient_norms.find(name);
    const double expected = it == theirs.gradient_norms.end() ? NAN : it->second;
    result.note(name, std::abs(norm - expected) / std::max(expected, kSmallGradient * largest));
  }
  for (const auto& [name, norm] : theirs.gradient_norms)
    if (!ours.gradient_norms.contains(name)) result.note(name, NAN);
  return result;
}

BenchSubject::BenchSubject(const BenchShape& shape, Activations activations, ThreadPool& threads)
    : threads_(threads),
      model_(shape.model, TaperScope::kInternal),
      pass_(model_, activations, threads),
      weights_(model_, model_.layout().weights(), {}, threads),
      gamma_t_(model_, model_.layout().gamma_t(), {}, threads),
      batch_{shape.batch, shape.window, random_ids(shape, 1), random_ids(shape, 2)} {
  model_.initialize(0.02, true, 1);
  std::vector<double> scales;
  for (size_t i = 0; i < model_.layout().norms().size(); ++i)
    scales.push_back(0.8 + 0.4 * static_cast<double>(i % 3));
  model_.begin_taper(scales);
  Random random(3, 1);
  for (const ParameterLayout::Norm& norm : model_.layout().norms())
    for (int64_t i = 0; norm.in_scope && i < shape.model.width; ++i)
      model_.values()[static_cast<size_t>(norm.gamma_t + i)] =
          static_cast<float>(0.7 + 0.6 * random.uniform());
}

void BenchSubject::step(BenchNorm norm) {
  constexpr double kClip = 1, kRate = 3e-4;
  run(pass_, norm, batch_);
  const auto start = std::chrono::steady_clock::now();
  const bool tapered = norm != BenchNorm::kPlain;
  double squared = weights_.squared_gradient_norm();
  if (tapered) squared += gamma_t_.squared_gradient_norm();
  const double scale = std::min(1.0, kClip / std::sqrt(squared));
  weights_.step(kRate, scale);
  if (tapered) gamma_t_.step(kRate, scale);
  model_.clear_gradients(threads_);
  optimizer_seconds_ += seconds_since(start);
}

StepNumbers BenchSubject::numbers(BenchNorm norm) {
  const PassSums sums = run(pass_, norm, batch_);
  StepNumbers numbers;
  numbers.loss = sums.loss / static_cast<double>(sums.count);
  for (const ParameterSlice& slice : model_.layout().slices())
    numbers.gradient_norms[slice.name] = norm_of(part(model_.gradients(), slice.range));
  model_.clear_gradients(threads_);
  return numbers;
}

StepDifference BenchSubject::check(BenchNorm norm, int64_t windows, int64_t tokens) {
  const Batch batch = part_of(batch_, windows, tokens);
  const PassSums ours = run(pass_, norm, batch);

  ModelParameters<double> model(model_.config(), TaperScope::kInternal);
  std::vector<double> scales;
  for (const ParameterLayout::Norm& each : model_.layout().norms())
    scales.push_back(model_.scale(each.site.index));
  model.begin_taper(scales);
  std::copy(model_.values().begin(), model_.values().end(), model.values().begin());
  TrainingPass<double> pass(model, Activations::kFull, threads_);
  const PassSums right = run(pass, norm, batch);

  std::vector<double> norms, errors;
  for (const ParameterSlice& slice : model_.layout().slices()) {
    const auto a = part(model_.gradients(), slice.range);
    const auto b = part(model.gradients(), slice.range);
    double squares = 0, error = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      squares += b[i] * b[i];
      error += (a[i] - b[i]) * (a[i] - b[i]);
    }
    norms.push_back(std::sqrt(squares));
    errors.push_back(std::sqrt(error));
  }
  model_.clear_gradients(threads_);
  const double largest = *std::max_element(norms.begin(), norms.end());
  StepDifference result;
  result.loss = std::abs(ours.loss / right.loss - 1);
  for (size_t i = 0; i < norms.size(); ++i)
    result.note(model_.layout().slices()[i].name,
                errors[i] / std::max(norms[i], kSmallGradient * largest));
  return result;
}

void BenchSubject::write(const std::filesystem::path& path) const {
  std::vector<TensorView> tensors = model_.tensor_views();
  const auto add = [&](const char* name, const std::vector<int64_t>& ids) {
    tensors.push_back(
        {name, DType::kI64, {batch_.rows, batch_.window}, std::as_bytes(std::span(ids))});
  };
  add("ids", batch_.inputs);
  add("targets", batch_.targets);
  write_safetensors(path, tensors);
}

}  // namespace taper
