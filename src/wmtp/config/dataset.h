// Sections `dataset` and `data_sampling`. Initial values are the built-in defaults; meanings,
// ranges and resume classes stand in the schema table (table_data.cpp).
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "wmtp/config/enum_names.h"

namespace wmtp::config {

enum class DataFormat { automatic, instruct, text, tokens };
WMTP_ENUM_NAMES(DataFormat, "auto", "instruct", "text", "tokens");
enum class PromptTemplate { alpaca, chatml, raw };
WMTP_ENUM_NAMES(PromptTemplate, "alpaca", "chatml", "raw");
enum class Tokenize { joint, split };
WMTP_ENUM_NAMES(Tokenize, "joint", "split");
enum class AutoBool { automatic, yes, no };
WMTP_ENUM_NAMES(AutoBool, "auto", "true", "false");
enum class Truncate { right, keep_response, drop };
WMTP_ENUM_NAMES(Truncate, "right", "keep_response", "drop");
enum class DocumentSeparator { file, blank_line, line };
WMTP_ENUM_NAMES(DocumentSeparator, "file", "blank_line", "line");
enum class TextShuffle { blocks, documents, none };
WMTP_ENUM_NAMES(TextShuffle, "blocks", "documents", "none");
enum class OnBadLine { stop, skip };
WMTP_ENUM_NAMES(OnBadLine, "stop", "skip");
enum class OnShortage { error, cap };
WMTP_ENUM_NAMES(OnShortage, "error", "cap");

// `longest`, `max_length`, or a fixed number of tokens.
struct PadTo {
  enum class Kind { longest, max_length, tokens } kind = Kind::longest;
  std::int64_t num_tokens = 0;  // of Kind::tokens
};

struct TextData {
  std::string column = "text";
  DocumentSeparator document_separator = DocumentSeparator::file;
  bool eos_between = true;
  std::optional<std::int64_t> separator_id;
  bool skip_empty = true;
  bool document_mask = false;
  TextShuffle shuffle = TextShuffle::blocks;
  bool drop_tail = true;
};

struct Dataset {
  std::vector<std::filesystem::path> train;
  std::optional<std::vector<std::filesystem::path>> validation;
  std::string name;
  DataFormat format = DataFormat::automatic;
  std::int64_t max_length = 2048;
  PromptTemplate prompt_template = PromptTemplate::alpaca;
  Tokenize tokenize = Tokenize::joint;
  AutoBool add_bos = AutoBool::automatic;
  bool append_eos = true;
  Truncate truncate = Truncate::right;
  bool allow_special_tokens = false;
  bool packing = true;
  std::optional<std::int64_t> pack_multiple;
  PadTo pad_to;
  std::optional<std::int64_t> max_tokens_per_batch;
  TextData text;
  std::optional<std::filesystem::path> train_metadata, validation_metadata;
  OnBadLine on_bad_line = OnBadLine::stop;
  double max_bad_fraction = 0.001;
  std::int64_t max_bad_lines = 1000;
  std::int64_t max_line_bytes = 16777216;
  std::optional<std::filesystem::path> cache_dir;
  bool auto_cache = true;
  std::int64_t prefetch_batches = 4;
  std::int64_t loader_threads = 2;
};

struct DifficultyBin {  // lo and hi included; bins keep the order of the file, the first match wins
  std::string name;
  double lo = 0, hi = 0;
};
using DifficultyWeights = std::map<std::string, double>;
struct CurriculumPhase {  // half-open, in epochs
  double from_epoch = 0, to_epoch = 0;
  DifficultyWeights difficulty_weights;
};

struct DataSampling {
  std::int64_t seed = 42;
  std::optional<std::int64_t> n_samples, val_n_samples;
  bool shuffle = true;
  bool balance_correct = false;
  double correct_ratio = 0.5;
  OnShortage on_shortage = OnShortage::error;
  bool resample_each_epoch = false;
  bool use_pairwise = false;
  std::optional<std::int64_t> max_pairs_per_problem;
  bool use_length_balanced = false;
  std::vector<std::int64_t> length_bins{0, 100, 150, 200, 300, 500, 1000, 2000};
  std::vector<DifficultyBin> difficulty_bins;
  DifficultyWeights difficulty_weights;
  bool curriculum_learning = false;
  std::vector<CurriculumPhase> curriculum_schedule;
};

}  // namespace wmtp::config
