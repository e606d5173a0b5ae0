// What the data module is told, in its own words; options_from_config.h fills these from the
// `dataset` and `data_sampling` sections.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "wmtp/config/dataset.h"
#include "wmtp/tokenizer/prompt_template.h"

namespace wmtp::data {

using config::AutoBool;
using config::OnBadLine;
using config::OnShortage;
using config::TextShuffle;
using config::Tokenize;
using config::Truncate;
using Format = config::DataFormat;
using Separator = config::DocumentSeparator;
using SamplingOptions = config::DataSampling;
using tokenizer::PromptTemplate;

struct BadLinePolicy {
  OnBadLine on_bad_line = OnBadLine::stop;
  double max_bad_fraction = 0.001;
  std::uint64_t max_bad_lines = 1000;
  std::uint64_t max_line_bytes = std::uint64_t{16} << 20;
  bool operator==(const BadLinePolicy&) const = default;
};

// Everything that decides which ids a row becomes; part of the token cache's key.
struct EncodeSettings {
  PromptTemplate prompt_template = PromptTemplate::alpaca;
  Tokenize tokenize = Tokenize::joint;
  AutoBool add_bos = AutoBool::automatic;
  bool append_eos = true;
  bool allow_special_tokens = false;
};

struct CacheOptions {
  std::filesystem::path cache_dir;           // empty: .wmtp-cache beside the data file
  std::filesystem::path fallback_cache_dir;  // where that cannot be written
  bool auto_cache = true;
  // Only what is there at once: no folder is made, no data file hashed. With auto_cache off: what
  // is not there is MissingCache (source_file.h).
  bool look_only = false;
  int num_threads = 2;
  bool force = false;    // build again even if what is there is good
  std::string run_name;  // shown in lock files
};

struct DatasetOptions {
  std::vector<std::string> files;               // as written; globs allowed
  std::vector<std::filesystem::path> metadata;  // one per file, or none
  Format format = Format::automatic;
  std::uint32_t max_length = 2048;
  Truncate truncate = Truncate::right;
  EncodeSettings encode;
  config::TextData text;
  BadLinePolicy bad_lines;
  CacheOptions cache;
};

// One step is world_size * batch_size * accumulation samples.
struct StepShape {
  int world_size = 1, rank = 0;
  std::uint32_t batch_size = 1;
  std::uint32_t accumulation = 1;
  std::uint64_t samples_per_step() const {
    return std::uint64_t(world_size) * batch_size * accumulation;
  }
};

struct CollateOptions {
  bool packing = true;
  std::uint32_t pack_multiple = 1;
  std::uint32_t pad_multiple = 1;  // padded form: the stride is rounded up to this
  bool pad_to_max_length = false;
  std::optional<std::uint32_t> max_tokens_per_batch;
  int num_heads = 1;
  std::int32_t pad_token = 0;
};

}  // namespace wmtp::data
