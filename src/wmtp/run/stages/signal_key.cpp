#include "wmtp/run/stages/signal_key.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "wmtp/core/checksum.h"
#include "wmtp/core/file.h"
#include "wmtp/core/log.h"
#include "wmtp/model/hf_config.h"
#include "wmtp/model/presets.h"
#include "wmtp/models/remote/file_systems.h"
#include "wmtp/storage/atomic_file.h"

namespace wmtp::run {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kChunk = std::int64_t{4} << 20;  // elements read at once
constexpr std::size_t kDigits = 64;

std::string_view name_of(training::FrozenModelOptions::Use use) {
  return use == training::FrozenModelOptions::Use::values ? "values" : "next_token_nll";
}

// What the elements are rounded to before they are computed with, or quantised.
DType stored(const FrozenPlan& frozen) {
  const training::FrozenModelOptions& options = frozen.options;
  return options.stored_dtype.value_or(options.quantize ? kFloat32 : options.dtype);
}

// Names, sizes and times of the model's files; empty where it is not made of files of one folder.
std::string listing(const FrozenPlan& frozen, const weights::Environment& environment) {
  if (model::find_preset(frozen.path) || !frozen.source.base_model.empty() ||
      models::is_remote(frozen.path))
    return "";
  const fs::path path = weights::locate_model(frozen.path, environment);
  std::vector<fs::path> files;
  if (!fs::is_directory(path))
    files.push_back(path);
  else
    for (const auto& entry : fs::directory_iterator(path))
      if (entry.is_regular_file()) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::string text = fmt::format("{}\n{} {}\n", fs::canonical(path).string(),
                                 name_of(frozen.options.use), wmtp::name_of(stored(frozen)));
  for (const fs::path& file : files)
    text += fmt::format("{} {} {}\n", file.filename().string(), fs::file_size(file),
                        fs::last_write_time(file).time_since_epoch().count());
  return text;
}

std::string hash_weights(const FrozenPlan& frozen) {
  Sha256 digest;
  for (const layout::UnitSpec& unit : training::frozen_units(frozen.source, frozen.options.use))
    for (const layout::ParamSpec& param : unit.params) {
      digest.update(fmt::format("{} {}\n", param.name, param.numel()));
      for (std::int64_t begin = 0; begin < param.numel(); begin += kChunk) {
        const DType dtype = unit.full_precision ? frozen.options.dtype : stored(frozen);
        const Tensor part =
            at::empty({std::min(kChunk, param.numel() - begin)}, at::TensorOptions().dtype(dtype));
        frozen.source.fill(param, begin, part);
        digest.update({static_cast<const std::byte*>(part.const_data_ptr()), part.nbytes()});
      }
    }
  return to_hex(digest.finish());
}

}  // namespace

std::string weights_fingerprint(const FrozenPlan& frozen, const weights::Environment& environment,
                                const fs::path& memo) {
  const std::string files = listing(frozen, environment);
  const fs::path remembered = memo / sha256_hex(files);
  if (std::error_code status; !files.empty() && fs::file_size(remembered, status) == kDigits)
    return read_file(remembered, kDigits);
  const std::string weights = hash_weights(frozen);
  if (files.empty()) return weights;
  std::error_code status;
  fs::create_directories(memo, status);
  try {
    storage::write_file_atomically(remembered, weights);
  } catch (const Error& error) {
    log::warn("signals", "{}", error.what());
  }
  return weights;
}

std::string signal_key(const FrozenPlan& frozen, const std::string& weights,
                       const data::Corpus& corpus) {
  const data::DatasetOptions& data = corpus.options();
  model::ExportExtras extras;
  if (frozen.options.use == training::FrozenModelOptions::Use::values)
    extras.value_head = frozen.source.value_head;
  std::string text = fmt::format(
      "wmtp signals 1\n{}\nweights {}\n{}\ncompute {} on {}\ntokenizer {}\nmax_length {}\n"
      "truncate {}\ndocument_mask {}\ndrop_tail {}\n",
      name_of(frozen.options.use), weights,
      model::hf_config_text(training::frozen_config(frozen.source, frozen.options.use), "float32",
                            extras),
      wmtp::name_of(frozen.options.dtype), frozen.options.device.is_cuda() ? "cuda" : "cpu",
      corpus.tokenizer_fingerprint(), data.max_length, config::name_of(data.truncate),
      data.text.document_mask, data.text.drop_tail);
  if (frozen.options.quantize)
    text += fmt::format("quantize nf4 after {}\n", wmtp::name_of(stored(frozen)));
  for (const auto& file : corpus.files())
    text += fmt::format("data {} {}\n", to_hex(file->cache.facts().data_fingerprint),
                        to_hex(file->cache.facts().key));
  return sha256_hex(text);
}

}  // namespace wmtp::run
