#include <fmt/format.h>

#include <iostream>

#include "wmtp/bench/bench.h"
#include "wmtp/bench/save_benchmark.h"
#include "wmtp/cli/rank_run.h"
#include "wmtp/core/error.h"
#include "wmtp/tensor/host_memory.h"

namespace wmtp::bench {
namespace {

void show_json(const CheckpointFlags& flags, const SaveTimes& measured) {
  nlohmann::ordered_json fields{
      {"preset", flags.preset},        {"bytes", measured.bytes},
      {"prepared", flags.prepare},     {"first_blocked_s", measured.first_blocked_s},
      {"memcpy_s", measured.memcpy_s}, {"blocked_s", measured.blocked_s},
      {"plain_s", measured.plain_s},   {"save_s", measured.save_s},
      {"writer_s", measured.writer_s}};
  if (flags.steps > 0)
    fields.update({{"calm_s", measured.calm_s},
                   {"saving_s", measured.saving_s},
                   {"saves", measured.num_saves},
                   {"saves_left_out", measured.num_left_out},
                   {"slowdown", measured.slowdown()},
                   {"lost_s_per_save", measured.lost_s_per_save()}});
  cli::emit_json("result", fields);
}

void show_saves(const CheckpointFlags& flags, const SaveTimes& measured,
                const cli::Session& session) {
  if (session.json) return show_json(flags, measured);
  const double megabytes = static_cast<double>(measured.bytes) / 1e6;
  const double copy_s = median(measured.memcpy_s), blocked_s = median(measured.blocked_s);
  const double plain_s = median(measured.plain_s), save_s = median(measured.save_s);
  std::cout << fmt::format(
      "{:.0f} MB of state\n"
      "training waits {:.3f} s for a save, memcpy of as much {:.3f} s: {:.2f} times; the first "
      "{:.3f} "
      "s: {:.2f} times\n"
      "save {:.2f} s ({:.0f} MB/s), plain write and fsync {:.2f} s ({:.0f} MB/s): {:.2f} of its "
      "speed\n",
      megabytes, blocked_s, copy_s, blocked_s / copy_s, measured.first_blocked_s,
      measured.first_blocked_s / copy_s, save_s, megabytes / save_s, plain_s, megabytes / plain_s,
      plain_s / save_s);
  if (flags.steps > 0)
    std::cout << fmt::format(
        "{} steps with {} saves ({} left out): {:+.1f} %, {:.2f} s of training a save\n",
        flags.turns * flags.steps, measured.num_saves, measured.num_left_out,
        measured.slowdown() * 100, measured.lost_s_per_save());
}

int bench_checkpoint(const cli::Session& session, const CheckpointFlags& flags) {
  keep_freed_host_memory();
  cli::RankRun run;
  run.launch = cli::discover_launch();
  run.options.device = cli::choose_device(run.launch, {flags.device, false});
  cli::set_threads(run.launch, flags.threads);
  const c10::Device device = run.options.device;
  return cli::run_as_rank(session, std::move(run), [&](comm::ProcessGroupSession& group) {
    if (group.world() > 1)
      throw Error(ErrorKind::config, "bench", "bench checkpoint runs on one rank");
    group.connect();
    show_saves(flags, time_saves(flags, group, device), session);
    return 0;
  });
}

}  // namespace

void add_bench_checkpoint(CLI::App& bench, cli::Session& session) {
  CLI::App* command = bench.add_subcommand(
      "checkpoint", "Saves against memcpy and plain writes, and what they cost a run");
  command->footer(
      "  wmtp bench checkpoint --out /scratch/bench\n"
      "  wmtp bench checkpoint --out /scratch/bench --preset small --steps 40 --every 40");
  const auto flags = std::make_shared<CheckpointFlags>();
  command->add_option("--out", flags->out, "Folder to write to; two checkpoints stay in it")
      ->required()
      ->type_name("D");
  command->add_option("--preset", flags->preset, "Shape of the model")->type_name("NAME");
  command->add_option("--rounds", flags->rounds, "Saves to time")->check(CLI::PositiveNumber);
  command->add_option("--steps", flags->steps, "Steps of a turn (0: saves alone)")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--turns", flags->turns, "Turns with saves, and as many without")
      ->check(CLI::PositiveNumber);
  command->add_option("--every", flags->every, "Steps between two saves")
      ->check(CLI::PositiveNumber);
  command->add_option("--batch", flags->batch, "Rows of a step")->check(CLI::PositiveNumber);
  command->add_option("--seq", flags->seq, "Tokens of a row")->check(CLI::Range(8, 1 << 20));
  command->add_option("--device", flags->device, "auto, cuda or cpu");
  command->add_option("--threads", flags->threads, "Threads (0: automatic)")
      ->check(CLI::NonNegativeNumber);
  command->add_flag("!--unprepared", flags->prepare,
                    "The first save allocates its memory itself, as in a run of one step");
  command->callback([&session, flags] {
    session.run = [&session, flags] { return bench_checkpoint(session, *flags); };
  });
}

}  // namespace wmtp::bench
