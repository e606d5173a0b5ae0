#include "wmtp/data/options_from_config.h"

#include <algorithm>

namespace wmtp::data {

DatasetOptions dataset_options(const config::Config& config, Split split) {
  const config::Dataset& dataset = config.dataset;
  DatasetOptions out;
  const auto& files = split == Split::train ? dataset.train : dataset.validation.value();
  for (const auto& file : files) out.files.push_back(file.string());
  const auto& metadata =
      split == Split::train ? dataset.train_metadata : dataset.validation_metadata;
  if (metadata) out.metadata.push_back(*metadata);
  out.format = dataset.format;
  out.max_length = static_cast<std::uint32_t>(dataset.max_length);
  out.truncate = dataset.truncate;
  out.encode = {static_cast<PromptTemplate>(dataset.prompt_template), dataset.tokenize,
                dataset.add_bos, dataset.append_eos, dataset.allow_special_tokens};
  out.text = dataset.text;
  out.bad_lines = {dataset.on_bad_line, dataset.max_bad_fraction,
                   static_cast<std::uint64_t>(dataset.max_bad_lines),
                   static_cast<std::uint64_t>(dataset.max_line_bytes)};
  out.cache.cache_dir = dataset.cache_dir.value_or("");
  out.cache.fallback_cache_dir = config.runtime.cache_dir;
  out.cache.auto_cache = dataset.auto_cache;
  out.cache.num_threads = std::max(1, static_cast<int>(dataset.loader_threads));
  out.cache.run_name = config.experiment.name;
  return out;
}

static_assert(static_cast<int>(PromptTemplate::chatml) ==
                  static_cast<int>(config::PromptTemplate::chatml) &&
              static_cast<int>(PromptTemplate::raw) ==
                  static_cast<int>(config::PromptTemplate::raw));

CollateOptions collate_options(const config::Dataset& dataset, bool cuda, int num_heads) {
  CollateOptions out;
  out.packing = dataset.packing;
  out.pack_multiple = static_cast<std::uint32_t>(dataset.pack_multiple.value_or(cuda ? 256 : 1));
  out.pad_to_max_length = dataset.pad_to.kind == config::PadTo::Kind::max_length;
  if (dataset.pad_to.kind == config::PadTo::Kind::tokens)
    out.pad_multiple = static_cast<std::uint32_t>(dataset.pad_to.num_tokens);
  if (dataset.max_tokens_per_batch)
    out.max_tokens_per_batch = static_cast<std::uint32_t>(*dataset.max_tokens_per_batch);
  out.num_heads = num_heads;
  return out;
}

LoaderOptions loader_options(const config::Dataset& dataset, const CollateOptions& collate) {
  LoaderOptions out;
  out.collate = collate;
  out.max_length = static_cast<std::uint32_t>(dataset.max_length);
  out.prefetch_batches = static_cast<std::size_t>(dataset.prefetch_batches);
  out.num_threads = static_cast<int>(dataset.loader_threads);
  return out;
}

}  // namespace wmtp::data
