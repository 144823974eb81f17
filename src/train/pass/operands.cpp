#include "train/pass/operands.h"

#include <algorithm>

#include "core/error.h"
#include "ops/fold.h"

namespace taper {

std::vector<FoldableLinear> foldable_linears(const Architecture& architecture,
                                             const ParameterLayout& layout) {
  std::vector<FoldableLinear> all;
  for (const Part& part : architecture.parts()) {
    if (is_norm(part.place.slot) || part.place.slot == Slot::kEmbedding) continue;
    // Neighbours that read the same norm are multiplied together.
    if (part.reads >= 0 && !all.empty() && all.back().norm == part.reads)
      all.back().out += part.shape[0];
    else
      all.push_back({layout.offset(part.place), part.shape[0], part.shape[1], part.reads,
                     part.place.slot == Slot::kHead});
  }
  if (!architecture.config().tied_head) return all;
  const int final_norm = static_cast<int>(architecture.norms().size()) - 1;
  all.push_back({layout.offset(architecture.head()), architecture.config().vocab_size,
                 architecture.config().width, final_norm, true});
  return all;
}

template <typename R>
Operands<R>::Operands(const ModelParameters<R>& parameters, Activations activations)
    : parameters_(parameters), activations_(activations) {
  for (const FoldableLinear& linear :
       foldable_linears(parameters.architecture(), parameters.layout()))
    operands_.push_back({linear});
}

template <typename R>
bool Operands<R>::is_folded(const FoldableLinear& linear) const {
  return linear.norm >= 0 &&
         norm_form(parameters_.norm_state(linear.norm), gate_) == NormForm::kFixedScale;
}

template <typename R>
void Operands<R>::make(ThreadPool& team, double gate) {
  gate_ = gate;
  const bool full = activations_ == Activations::kFull;
  const int64_t element = full ? sizeof(R) : sizeof(bf16);
  int64_t bytes = 0;
  for (Operand& operand : operands_) {
    operand.folded = is_folded(operand.linear);
    if (operand.folded || !full) bytes += operand.linear.size() * element;
  }
  if (bytes > memory_.size()) memory_ = AlignedMemory(bytes);
  std::byte* to = memory_.data();
  const R* values = parameters_.values().data();
  for (Operand& operand : operands_) {
    const FoldableLinear& linear = operand.linear;
    const R* weight = values + linear.offset;
    if (!operand.folded && full) {
      operand.data = weight;
      continue;
    }
    const R* gamma_t = nullptr;
    R scale = 0;
    if (operand.folded) {
      gamma_t = values + parameters_.layout().norms()[static_cast<size_t>(linear.norm)].gamma_t;
      scale = parameters_.scale(linear.norm);
    }
    if (full)
      fold_forward<R>(team, linear.out, linear.in, weight, gamma_t, scale,
                      reinterpret_cast<R*>(to));
    else if constexpr (std::is_same_v<R, float>)
      fold_forward<bf16>(team, linear.out, linear.in, weight, gamma_t, scale,
                         reinterpret_cast<bf16*>(to));
    operand.data = to;
    to += linear.size() * element;
  }
}

template <typename R>
NormWeights<R> Operands<R>::norm_weights(int norm, R* gradients,
                                         std::vector<TaperNormSums>* sums) const {
  NormWeights<R> to;
  to.form = norm_form(parameters_.norm_state(norm), gate_);
  if (to.form == NormForm::kFixedScale) to.form = NormForm::kIdentity;  // it is in the operand
  if (to.is_identity()) return to;
  const ParameterLayout::Norm& at = parameters_.layout().norms()[static_cast<size_t>(norm)];
  const ModelConfig& config = parameters_.config();
  const bool tapered = parameters_.norm_state(norm) == NormState::kTapered;
  const R* values = parameters_.values().data();
  to.args = {values + at.gamma,
             tapered ? values + at.gamma_t : nullptr,
             parameters_.scale(norm),
             tapered ? static_cast<R>(gate_) : R{1},
             static_cast<R>(config.norm_eps),
             config.width};
  if (gradients) to.dgamma = gradients + at.gamma;
  if (gradients && tapered) to.dgamma_t = gradients + at.gamma_t;
  if (sums && at.in_scope) to.sums = &(*sums)[static_cast<size_t>(norm)];
  return to;
}

template <typename R>
ModelWeights<R> Operands<R>::weights(R* gradients, R* folded_gradients,
                                     std::vector<TaperNormSums>* sums) const {
  std::vector<LinearWeights<R>> linears;
  for (const Operand& operand : operands_) {
    R* gradient = gradients ? gradients + operand.linear.offset : nullptr;
    if (operand.folded && folded_gradients) {
      gradient = folded_gradients;
      folded_gradients += operand.linear.size();
    }
    linears.push_back({operand.data, gradient, operand.linear.out, operand.linear.in});
  }
  const int64_t embedding = parameters_.layout().offset({Slot::kEmbedding});
  ModelWeights<R> to;
  to.embedding = parameters_.values().data() + embedding;
  if (gradients) to.dembedding = gradients + embedding;
  const auto blocks = static_cast<size_t>(parameters_.config().num_layers);
  TAPER_CHECK(linears.size() == 4 * blocks + 1);
  for (size_t i = 0; i < blocks; ++i) {
    const int norm = static_cast<int>(2 * i);
    to.blocks.push_back({norm_weights(norm, gradients, sums), linears[4 * i], linears[4 * i + 1],
                         norm_weights(norm + 1, gradients, sums), linears[4 * i + 2],
                         linears[4 * i + 3]});
  }
  to.final_norm = norm_weights(static_cast<int>(2 * blocks), gradients, sums);
  to.head = linears.back();
  return to;
}

template <typename R>
int64_t Operands<R>::folded_size() const {
  int64_t size = 0;
  for (const Operand& operand : operands_)
    if (operand.folded) size += operand.linear.size();
  return size;
}

template <typename R>
void Operands<R>::backward(ThreadPool& team, std::vector<R*> folded_gradients) const {
  const R* values = parameters_.values().data();
  R* gradients = parameters_.gradients().data();
  for (const Operand& operand : operands_) {
    if (!operand.folded) continue;
    const FoldableLinear& linear = operand.linear;
    const int64_t gamma_t = parameters_.layout().norms()[static_cast<size_t>(linear.norm)].gamma_t;
    const FoldedWeightGradient<R> args{folded_gradients,
                                       values + linear.offset,
                                       values + gamma_t,
                                       parameters_.scale(linear.norm),
                                       gradients + linear.offset,
                                       gradients + gamma_t,
                                       linear.out,
                                       linear.in};
    fold_backward(team, args);
    for (R*& gradient : folded_gradients) gradient += linear.size();
  }
}

template <typename R>
std::vector<Range> Operands<R>::idle_gradients() const {
  const bool tied = parameters_.config().tied_head;
  std::vector<Range> idle;
  for (const Operand& operand : operands_)
    if (operand.folded && !(tied && operand.linear.is_head)) idle.push_back(operand.linear.range());
  return idle;  // operands lie in the layout's order
}

template <typename R>
int64_t Operands<R>::memory_bytes(const Architecture& architecture, Activations activations,
                                  bool tapers) {
  if (activations == Activations::kFull) return folded_bytes(architecture, tapers);
  return architecture.num_parameters() * static_cast<int64_t>(sizeof(bf16));
}

template <typename R>
int64_t Operands<R>::folded_bytes(const Architecture& architecture, bool tapers) {
  return tapers ? architecture.num_parameters() * static_cast<int64_t>(sizeof(R)) : 0;
}

template class Operands<float>;
template class Operands<double>;

}  // namespace taper
