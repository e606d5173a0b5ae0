#include "wmtp/run/checkpoints/trainer_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "wmtp/checkpoint/format/trainer_state.h"
#include "wmtp/core/error.h"

namespace wmtp::run {
namespace {

constexpr int kVersion = 1;

const Json& field(const Json& object, const char* key) {
  if (!object.is_object() || !object.contains(key))
    throw Error(ErrorKind::checkpoint, "checkpoint",
                fmt::format("trainer_state.json has no {}", key));
  return object.at(key);
}

template <class T>
T integer(const Json& object, const char* key) {
  const Json& value = field(object, key);
  if (!value.is_number_integer())
    throw Error(ErrorKind::checkpoint, "checkpoint",
                fmt::format("trainer_state.json: {} is no whole number", key));
  const bool negative = !value.is_number_unsigned() && value.get<std::int64_t>() < 0;
  if (negative ||  // every one of them counts something
      value.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<T>::max()))
    throw Error(ErrorKind::checkpoint, "checkpoint",
                fmt::format("trainer_state.json: {} is {}, which cannot be", key, value.dump()));
  return value.get<T>();
}

double number(const Json& object, const char* key) {
  return checkpoint::read_number(field(object, key), key);
}

std::string text(const Json& object, const char* key) {
  const Json& value = field(object, key);
  if (!value.is_string())
    throw Error(ErrorKind::checkpoint, "checkpoint",
                fmt::format("trainer_state.json: {} is no text", key));
  return value.get<std::string>();
}

OrderedJson groups_json(const SavedState& state) {
  OrderedJson groups = OrderedJson::array();
  for (const optim::GroupSettings& group : state.groups)
    groups.push_back({{"name", group.name},
                      {"learning_rate", group.learning_rate},
                      {"weight_decay", group.weight_decay}});
  return groups;
}

OrderedJson schedule_json(const SavedState& state) {
  const PlateauState& plateau = state.train.plateau;
  return {{"planned_steps", state.planned_steps},
          {"plateau_factor", plateau.factor},
          {"plateau_best", plateau.best ? OrderedJson(*plateau.best) : OrderedJson()},
          {"plateau_waited", plateau.num_waited},
          {"skipped_steps", state.train.skipped_steps},
          {"bad_in_a_row", state.train.bad_in_a_row}};
}

void require_version(const Json& json) {
  if (const int version = integer<int>(json, "version"); version != kVersion)
    throw Error(ErrorKind::config, "checkpoint",
                fmt::format("trainer_state.json is of version {}, this program reads version {}",
                            version, kVersion),
                "use the program that wrote it, or a later one");
}

// `known` is what was read, written again: what it lacks would be lost.
void refuse_unknown(const Json& json, const OrderedJson& known, const std::string& path) {
  if (json.is_array() && known.is_array())
    for (std::size_t i = 0; i < json.size(); ++i) refuse_unknown(json[i], known[i], path);
  if (!json.is_object()) return;
  for (const auto& [key, value] : json.items()) {
    const std::string name = path.empty() ? key : path + "." + key;
    const bool is_known = known.is_object() && known.contains(key);
    if (!is_known || (known.at(key).is_null() && !value.is_null()))
      throw Error(ErrorKind::checkpoint, "checkpoint",
                  fmt::format("trainer_state.json: unknown key \"{:.80}\"", name),
                  "was it written by this version?");
    refuse_unknown(value, known.at(key), name);
  }
}

std::vector<optim::GroupSettings> read_groups(const Json& optimizer) {
  const Json& listed = field(optimizer, "groups");
  if (!listed.is_array())
    throw Error(ErrorKind::checkpoint, "checkpoint", "trainer_state.json: groups is no list");
  std::vector<optim::GroupSettings> groups;
  for (const Json& group : listed)
    groups.push_back(
        {text(group, "name"), number(group, "learning_rate"), number(group, "weight_decay")});
  return groups;
}

// Absent in checkpoints that are older, and where nothing is watched.
LossHistory read_losses(const Json& json) {
  LossHistory losses;
  if (!json.contains("loss_watch")) return losses;
  const Json& watch = json.at("loss_watch");
  const Json& recent = field(watch, "recent");
  if (!recent.is_array() || recent.size() > LossHistory::kLongest)
    throw Error(ErrorKind::checkpoint, "checkpoint",
                "trainer_state.json: loss_watch.recent is no list, or too long");
  for (const Json& loss : recent) losses.recent.push_back(checkpoint::read_number(loss, "recent"));
  if (!std::all_of(losses.recent.begin(), losses.recent.end(),
                   [](double loss) { return std::isfinite(loss); }))
    throw Error(ErrorKind::checkpoint, "checkpoint",
                "trainer_state.json: a loss of loss_watch.recent is not finite");
  const Json& is_high = field(watch, "is_high");
  if (!is_high.is_boolean())
    throw Error(ErrorKind::checkpoint, "checkpoint",
                "trainer_state.json: is_high is neither true nor false");
  losses.is_high = is_high.get<bool>();
  losses.num_spikes = integer<std::int64_t>(watch, "spikes");
  return losses;
}

OrderedJson best_json(const std::optional<BestRecord>& best) {
  if (!best) return nullptr;
  return {{"metric", best->metric}, {"value", best->value}, {"step", best->step}};
}

}  // namespace

OrderedJson to_json(const SavedState& state) {
  OrderedJson json{
      {"version", kVersion},
      {"step", state.train.step},
      {"epoch", state.train.cursor.epoch},
      {"samples_seen", state.train.samples_seen},
      {"tokens_seen", state.train.tokens_seen},
      {"cursor", data::to_json(state.train.cursor)},
      {"rng", {{"seed", state.seed}}},
      {"optimizer", {{"applied_updates", state.applied_updates}, {"groups", groups_json(state)}}},
      {"schedule", schedule_json(state)},
      {"loss_scale", nullptr},
      {"ema", nullptr},
      {"best", best_json(state.train.best)},
      {"early_stop", {{"without_best", state.train.validations_without_best}}},
      {"layout",
       {{"world_size", state.layout.world_size},
        {"strategy", state.layout.strategy},
        {"precision", state.layout.precision},
        {"batch_size", state.layout.batch_size},
        {"accumulation", state.layout.accumulation}}},
      {"mlflow", nullptr}};
  if (state.loss_scale)
    json["loss_scale"] = {{"scale", state.loss_scale->scale},
                          {"good_steps", state.loss_scale->good_steps}};
  if (state.ema)
    json["ema"] = {{"ema_mean", state.ema->mean},
                   {"ema_std", state.ema->std},
                   {"step_count", state.ema->count},
                   {"momentum", state.ema->momentum},
                   {"warmup_steps", state.ema->warmup_steps}};
  if (!state.train.run_uid.empty()) json["mlflow"] = {{"run_uid", state.train.run_uid}};
  if (const LossHistory& losses = state.train.losses; losses != LossHistory())
    json["loss_watch"] = {
        {"recent", losses.recent}, {"is_high", losses.is_high}, {"spikes", losses.num_spikes}};
  return json;
}

SavedState saved_state_from_json(const Json& json) {
  require_version(json);
  SavedState state;
  TrainState& train = state.train;
  train.step = integer<std::int64_t>(json, "step");
  train.samples_seen = integer<std::uint64_t>(json, "samples_seen");
  train.tokens_seen = integer<std::uint64_t>(json, "tokens_seen");
  train.cursor = data::cursor_from_json(field(json, "cursor"));
  if (const auto epoch = integer<std::uint64_t>(json, "epoch"); epoch != train.cursor.epoch)
    throw Error(ErrorKind::checkpoint, "checkpoint",
                fmt::format("trainer_state.json is of epoch {}, its data cursor of epoch {}", epoch,
                            train.cursor.epoch));
  state.seed = integer<std::uint64_t>(field(json, "rng"), "seed");
  const Json& optimizer = field(json, "optimizer");
  state.applied_updates = integer<std::int64_t>(optimizer, "applied_updates");
  state.groups = read_groups(optimizer);
  const Json& schedule = field(json, "schedule");
  state.planned_steps = integer<std::int64_t>(schedule, "planned_steps");
  train.plateau.factor = number(schedule, "plateau_factor");
  if (!field(schedule, "plateau_best").is_null())
    train.plateau.best = number(schedule, "plateau_best");
  train.plateau.num_waited = integer<std::int64_t>(schedule, "plateau_waited");
  train.skipped_steps = integer<std::int64_t>(schedule, "skipped_steps");
  train.bad_in_a_row = integer<std::int64_t>(schedule, "bad_in_a_row");
  if (const Json& scale = field(json, "loss_scale"); !scale.is_null())
    state.loss_scale =
        optim::LossScale::State{number(scale, "scale"), integer<std::int64_t>(scale, "good_steps")};
  if (const Json& ema = field(json, "ema"); !ema.is_null())
    state.ema = weighting::EmaState{
        number(ema, "ema_mean"), number(ema, "ema_std"), integer<std::int64_t>(ema, "step_count"),
        number(ema, "momentum"), integer<std::int64_t>(ema, "warmup_steps")};
  if (const Json& best = field(json, "best"); !best.is_null())
    train.best = BestRecord{text(best, "metric"), number(best, "value"),
                            integer<std::int64_t>(best, "step")};
  train.validations_without_best = integer<std::int64_t>(field(json, "early_stop"), "without_best");
  const Json& layout = field(json, "layout");
  state.layout = {integer<int>(layout, "world_size"), text(layout, "strategy"),
                  text(layout, "precision"), integer<std::int64_t>(layout, "batch_size"),
                  integer<std::int64_t>(layout, "accumulation")};
  if (const Json& tracked = field(json, "mlflow"); !tracked.is_null())
    train.run_uid = text(tracked, "run_uid");
  train.losses = read_losses(json);
  refuse_unknown(json, to_json(state), "");
  return state;
}

}  // namespace wmtp::run
