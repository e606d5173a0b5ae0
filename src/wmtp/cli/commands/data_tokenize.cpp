#include <fmt/format.h>

#include <iostream>
#include <memory>
#include <thread>

#include "wmtp/cli/commands/data.h"
#include "wmtp/cli/commands/named_tokenizer.h"
#include "wmtp/cli/config_flags.h"
#include "wmtp/core/error.h"
#include "wmtp/data/options_from_config.h"

namespace wmtp::cli {
namespace {

struct TokenizeFlags {
  ConfigFlags config;
  std::vector<std::string> files;
  std::string tokenizer, prompt_template = "alpaca", out;
  bool append_eos = true, force = false, dry_run = false;
  int num_threads = 0;
};

void tokenize(const data::DatasetOptions& options, const tokenizer::Tokenizer& tokenizer,
              bool json) {
  const data::Corpus corpus(options, tokenizer, false);
  for (const auto& file : corpus.files()) {
    const data::TokenCache& cache = file->cache;
    if (json)
      emit_json("result", {{"file", file->path.string()},
                           {"cache", cache.path().string()},
                           {"rows", cache.num_rows()},
                           {"tokens", cache.num_tokens()},
                           {"boundary_merges", cache.facts().boundary_merges}});
    else
      std::cout << fmt::format("{}: {} rows, {} tokens -> {}\n", file->path.string(),
                               cache.num_rows(), cache.num_tokens(), cache.path().string());
  }
}

std::vector<data::DatasetOptions> jobs_of(const TokenizeFlags& flags,
                                          std::shared_ptr<const tokenizer::Tokenizer>& tokenizer) {
  std::vector<data::DatasetOptions> jobs;
  if (!flags.config.file.empty()) {
    const config::Config config = flags.config.load().config;
    tokenizer =
        flags.tokenizer.empty() ? policy_tokenizer(config) : open_tokenizer(flags.tokenizer);
    jobs.push_back(data::dataset_options(config, data::Split::train));
    if (config.dataset.validation)
      jobs.push_back(data::dataset_options(config, data::Split::validation));
  } else {
    if (flags.files.empty() || flags.tokenizer.empty())
      throw Error(ErrorKind::config, "data", "neither --config nor FILE and --tokenizer are given");
    tokenizer = open_tokenizer(flags.tokenizer);
    data::DatasetOptions job;
    job.files = flags.files;
    job.encode.prompt_template = tokenizer::parse_prompt_template(flags.prompt_template);
    job.encode.append_eos = flags.append_eos;
    jobs.push_back(job);
  }
  for (data::DatasetOptions& job : jobs) {
    job.cache.auto_cache = true;
    job.cache.force = flags.force;
    job.cache.run_name = "wmtp data tokenize";
    if (!flags.out.empty()) job.cache.cache_dir = flags.out;
    job.cache.num_threads =
        flags.num_threads > 0 ? flags.num_threads
                              : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  }
  return jobs;
}

}  // namespace

void add_data_tokenize(CLI::App& data, Session& session) {
  const auto flags = std::make_shared<TokenizeFlags>();
  CLI::App* command =
      data.add_subcommand("tokenize", "Build the token caches that every stage and run reuses");
  command->footer(
      "  wmtp data tokenize --config run.yaml --threads 8\n"
      "  wmtp data tokenize demo/train.jsonl --tokenizer demo");
  flags->config.add_to(*command, false);
  command->add_option("FILE", flags->files, "Data files, without --config");
  command->add_option("--tokenizer", flags->tokenizer, kTokenizerHelp);
  command->add_option("--template", flags->prompt_template, "Prompt template")
      ->check(CLI::IsMember({"alpaca", "chatml", "raw"}));
  command->add_option("--append-eos", flags->append_eos, "End responses with EOS (true or false)");
  command->add_option("--threads", flags->num_threads, "0: all cores");
  command->add_option("--out", flags->out, "Folder of the caches");
  command->add_flag("--force", flags->force, "Build again even if the cache is there");
  command->add_flag("--dry-run", flags->dry_run, "Say what would be read");
  command->callback([flags, &session] {
    session.run = [flags, &session] {
      std::shared_ptr<const tokenizer::Tokenizer> tokenizer;
      for (const data::DatasetOptions& job : jobs_of(*flags, tokenizer)) {
        if (flags->dry_run)
          std::cout << fmt::format("would tokenize {}\n", fmt::join(job.files, ", "));
        else
          tokenize(job, *tokenizer, session.json);
      }
      return 0;
    };
  });
}

}  // namespace wmtp::cli
