#include "infer/fold_checkpoint.h"

#include "core/file.h"

namespace taper {
namespace {

constexpr uint64_t kNoiseSeed = 1;

// Compares in memory the folded model with the original, and with itself moved by rounding noise.
void verify(const Checkpoint& original, const FoldedModel& folded, const std::string& what,
            const TokenSample& sample, ThreadPool& pool, FoldReport& report) {
  const auto model_of = [&](std::shared_ptr<const TensorSet> tensors) {
    return Model(
        Checkpoint::in_memory(folded.plan.config, folded.plan.taper, std::move(tensors), what));
  };
  const Model result = model_of(folded.tensors);
  report.comparison = compare_models(Model(original), result, pool, sample);
  const Model noisy = model_of(with_rounding_noise(folded, kNoiseSeed));
  report.rounding_noise = compare_models(result, noisy, pool, sample).max_rel_difference();
  report.tolerance = fold_tolerance(report.rounding_noise, what);
  report.comparison.require_within(report.tolerance, what + " is not the tapered one");
}

}  // namespace

FoldReport fold_checkpoint(const Checkpoint& checkpoint, const std::filesystem::path& out,
                           bool replace, const TokenSample& sample, ThreadPool& pool) {
  const FoldedModel folded = fold(checkpoint);
  FoldReport report;
  report.norms_folded = std::ssize(folded.plan.steps);
  for (const NormSite& site : norm_sites(checkpoint.config()))
    report.norms_kept += checkpoint.norm_state(site) == NormState::kPlain ? 1 : 0;
  verify(checkpoint, folded, out.string() + ": the folded model", sample, pool, report);

  std::string tokenizer;
  if (const auto path = checkpoint.tokenizer_path()) tokenizer = read_file(*path);
  AtomicDirectory directory(out, replace);
  write_checkpoint_files(directory.path(), folded.plan.config, folded.plan.taper,
                         folded.tensors->views(), tokenizer);
  directory.commit();
  return report;
}

}  // namespace taper
