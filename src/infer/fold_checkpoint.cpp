#include "infer/fold_checkpoint.h"

#include "core/file.h"

namespace taper {
namespace {

constexpr uint64_t kNoiseSeed = 1;

}  // namespace

FoldReport fold_checkpoint(const Checkpoint& checkpoint, const std::filesystem::path& out,
                           bool replace, const TokenSample& sample, ThreadPool& pool) {
  const FoldedModel folded = fold(checkpoint);
  FoldReport report;
  report.norms_folded = std::ssize(folded.plan.steps);
  for (const NormSite& site : norm_sites(checkpoint.config()))
    report.norms_kept += checkpoint.norm_state(site) == NormState::kPlain ? 1 : 0;
  std::string tokenizer;
  if (const auto path = checkpoint.tokenizer_path()) tokenizer = read_file(*path);
  const auto write = [&](const AtomicDirectory& directory, const TensorSet& tensors) {
    write_checkpoint_files(directory.path(), folded.plan.config, folded.plan.taper, tensors.views(),
                           tokenizer);
  };
  AtomicDirectory directory(out, replace);
  write(directory, folded.tensors);
  const std::string what = out.string() + ": the folded model";
  {
    // From the file, so that what is verified is what will be read.
    const Model reference(checkpoint);
    const Model result(Checkpoint::open(directory.path()));
    report.comparison = compare_models(reference, result, pool, sample);
    AtomicDirectory noisy_directory(out, /*replace=*/true);  // never committed
    write(noisy_directory, with_rounding_noise(folded, kNoiseSeed));
    const Model noisy(Checkpoint::open(noisy_directory.path()));
    report.rounding_noise = compare_models(result, noisy, pool, sample).max_rel_difference();
  }
  report.tolerance = fold_tolerance(report.rounding_noise, what);
  report.comparison.require_within(report.tolerance, what + " is not the tapered one");
  directory.commit();
  return report;
}

}  // namespace taper
