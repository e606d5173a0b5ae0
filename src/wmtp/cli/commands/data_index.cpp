#include <fmt/format.h>

#include <iostream>
#include <memory>
#include <numeric>
#include <thread>

#include "wmtp/cli/commands/data.h"
#include "wmtp/cli/commands/named_tokenizer.h"
#include "wmtp/core/error.h"
#include "wmtp/core/time.h"
#include "wmtp/data/index/index_builder.h"
#include "wmtp/data/index/metadata_json.h"
#include "wmtp/data/index/source_file.h"

namespace wmtp::cli {
namespace {

struct IndexFlags {
  std::vector<std::string> files;
  std::string tokenizer, out, on_bad_line = "stop";
  bool metadata_json = false, force = false, dry_run = false;
  double max_bad_fraction = 0.001;
  std::uint64_t max_bad_lines = 1000, max_line_bytes = data::BadLinePolicy{}.max_line_bytes;
  int num_threads = 0;
};

void report_index(const data::IndexRequest& request, const data::IndexReport& built, bool json) {
  const std::uint64_t bad =
      std::accumulate(built.bad_counts.begin(), built.bad_counts.end(), std::uint64_t{0});
  const double rate = static_cast<double>(built.source_bytes) / 1e6 / std::max(built.seconds, 1e-9);
  if (json) {
    emit_json("result", {{"file", request.file.string()},
                         {"index", request.index.string()},
                         {"rows", built.num_rows},
                         {"blank_lines", built.num_blank},
                         {"bad_lines", bad},
                         {"problems", built.num_problems},
                         {"seconds", built.seconds},
                         {"mb_s", rate}});
    return;
  }
  std::cout << fmt::format("{}: {} lines ({} blank, {} bad), {} problems, {:.1f} MB/s -> {}\n",
                           request.file.string(), built.num_rows, built.num_blank, bad,
                           built.num_problems, rate, request.index.string());
}

void index_file(const std::filesystem::path& file, const IndexFlags& flags,
                const tokenizer::Tokenizer* tokenizer, bool json) {
  const std::filesystem::path folder =
      flags.out.empty() ? file.parent_path() : std::filesystem::path(flags.out);
  data::IndexRequest request;
  request.file = file;
  request.index = folder / (data::stem_of(file) + ".widx");
  request.tokenizer = tokenizer;
  request.bad_lines = {flags.on_bad_line == "skip" ? data::OnBadLine::skip : data::OnBadLine::stop,
                       flags.max_bad_fraction, flags.max_bad_lines, flags.max_line_bytes};
  request.num_threads = flags.num_threads > 0
                            ? flags.num_threads
                            : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const bool current = !flags.force && data::index_is_current(request);
  if (flags.dry_run) {
    std::cout << fmt::format("{}: {} {}\n", file.string(), current ? "is current:" : "would write",
                             request.index.string());
    return;
  }
  if (!folder.empty()) std::filesystem::create_directories(folder);
  if (current) {
    const data::RowIndex index = data::RowIndex::open(request.index);
    if (json)
      emit_json("result", {{"file", file.string()},
                           {"index", request.index.string()},
                           {"rows", index.num_rows()},
                           {"current", true}});
    else
      std::cout << fmt::format("{}: {} is current ({} lines)\n", file.string(),
                               request.index.string(), index.num_rows());
  } else {
    const data::BuildLock lock(request.index, "wmtp data index");
    const data::IndexReport built = data::build_index(request);
    data::log_index_report(file, built);
    report_index(request, built, json);
  }
  if (flags.metadata_json)
    data::write_metadata_json(folder / (data::stem_of(file) + "_metadata.json"),
                              data::RowIndex::open(request.index), file.filename().string());
}

}  // namespace

void add_data_index(CLI::App& data, Session& session) {
  const auto flags = std::make_shared<IndexFlags>();
  CLI::App* command =
      data.add_subcommand("index", "Check JSONL rows and write <split>.widx for the samplers");
  command->add_option("FILE", flags->files, "JSONL files, also .gz and .zst")->required();
  command->add_option("--tokenizer", flags->tokenizer,
                      "Also count the tokens of outputs (length-balanced pairs)");
  command->add_flag("--metadata-json", flags->metadata_json,
                    "Also write <split>_metadata.json for other tools");
  command->add_option("--on-bad-line", flags->on_bad_line, "What to do with bad lines")
      ->check(CLI::IsMember({"stop", "skip"}));
  command->add_option("--max-bad-fraction", flags->max_bad_fraction,
                      "With skip: at most this share of the lines");
  command->add_option("--max-bad-lines", flags->max_bad_lines, "With skip: at most so many lines");
  command->add_option("--max-line-bytes", flags->max_line_bytes, "Longer lines are bad");
  command->add_option("--threads", flags->num_threads, "0: all cores");
  command->add_option("--out", flags->out, "Folder to write to; otherwise beside the file");
  command->add_flag("--force", flags->force, "Build again even if the index is current");
  command->add_flag("--dry-run", flags->dry_run, "Say what would be written");
  command->footer(
      "  wmtp data index demo/train.jsonl\n"
      "  wmtp data index rows.jsonl.zst --tokenizer models/llama --on-bad-line skip --out index");
  command->callback([flags, &session] {
    session.run = [flags, &session] {
      const auto tokenizer = flags->tokenizer.empty() ? nullptr : open_tokenizer(flags->tokenizer);
      for (const auto& file : data::expand_files(flags->files))
        index_file(file, *flags, tokenizer.get(), session.json);
      return 0;
    };
  });
}

}  // namespace wmtp::cli
