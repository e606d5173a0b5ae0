#include "wmtp/config/migrate/rewriter.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "wmtp/config/key_path.h"
#include "wmtp/config/migrate/rewrites.h"
#include "wmtp/config/old_keys.h"
#include "wmtp/config/tables/schema.h"

namespace wmtp::config {
namespace {

std::string joined(std::string a, const std::string& b) {
  if (a.empty() || b.empty()) return a + b;
  return a + "; " + b;
}

std::string as_comment(const OldEntry& entry, std::string_view key) {
  const bool scalar = !entry.value.is(Node::Kind::map) && !entry.value.is(Node::Kind::list);
  const std::string value = !entry.written.empty() ? entry.written
                            : scalar               ? flow_text(entry.value)
                                                   : "";
  if (key == entry.path && !value.empty()) return "was " + value;
  return fmt::format("was {}{}{}", entry.path, value.empty() ? "" : ": ", value);
}

Node without_secrets(Node node, std::string path) {
  std::ranges::replace(path, '-', '_');  // of a flag
  if (speaks_of_secrets(path)) return text_node("***", {});
  for (std::size_t i = 0; i < node.keys.size(); ++i)
    node.items[i] = without_secrets(std::move(node.items[i]), path + "." + node.keys[i].name);
  return node;
}

}  // namespace

void Rewriter::take_map(const Node& map, const std::string& path, const std::string& key) {
  for (std::size_t i = 0; i < map.keys.size(); ++i) {
    const std::string& name = map.keys[i].name;
    OldEntry entry{path.empty() ? name : path + "." + name, key.empty() ? name : key + "." + name,
                   map.keys[i].place, map.items[i]};
    if (name.find('.') != name.npos || name.empty())
      refuse(entry, "a key with dots has no section here; write it nested");
    else
      take(std::move(entry));
  }
}

void Rewriter::take(OldEntry entry) {
  const OldKey* old = find_old_key(entry.key);
  const std::string main = main_name(entry.key);
  const bool section = schema().is_section(old && !old->to.empty() ? old->to : main);
  if (section && entry.value.is(Node::Kind::map))
    return take_map(entry.value, entry.path, old ? std::string(old->to) : entry.key);
  if (old && old->fate == OldKey::Fate::dropped) return drop(entry, std::string(old->why));
  References::Result filled = references_.rewrite(entry.value, entry.path);
  if (!filled.fault.empty()) return refuse(entry, filled.fault);
  if (!filled.note.empty()) entry.written = flow_text(entry.value);
  entry.value = std::move(filled.value);
  entry.note = std::move(filled.note);
  if (implies_gae(entry.key)) implies_gae_ = entry;
  if (old && old->fate == OldKey::Fate::translated) return waiting_.push_back(std::move(entry));
  if (old && schema().find(old->to)) return put(entry, old->to, entry.value, std::string(old->why));
  if (const Rewrite rewrite = value_rewrite_of(main)) {
    entry.key = main;
    return rewrite(*this, entry);
  }
  if (schema().find(main))
    return put(entry, main, entry.value, main == entry.path ? "" : "the name of an older form");
  if (section) return take_section(entry);
  take_unknown(entry);
}

// A section that has a value of its own: `scheduler: cosine` names its type.
void Rewriter::take_section(const OldEntry& entry) {
  const std::string type = main_name(entry.key) + ".type";
  if (entry.value.is(Node::Kind::null))
    drop(entry, "an empty section says nothing");
  else if (entry.value.is(Node::Kind::text) && schema().find(type))
    put(entry, type, entry.value, "the section has further keys");
  else
    refuse(entry, fmt::format("expected a map of keys, found {}", describe(entry.value)));
}

void Rewriter::take_unknown(const OldEntry& entry) {
  for (const auto& [foreign, ours] : foreign_names())
    if (entry.key == foreign) return put(entry, ours, entry.value, "other programs call it so");
  if (entry.path == "extends" || entry.path == "defaults")
    return refuse(entry,
                  "a file is migrated whole: merge the files first, or give the one below it by "
                  "--defaults");
  refuse(entry, unknown_key_fact(entry.key));
}

void Rewriter::put(const OldEntry& entry, std::string_view key, Node value, std::string why) {
  const Row& row = *schema().find(key);
  if (value.is(Node::Kind::null) && !row.type.nullable)
    return drop(entry, "null: the default is left as it is");
  const std::string spelled = respell(row, value);
  const bool later = std::ranges::find(row.later_values, value.text) != row.later_values.end();
  if (later || (!row.available && json_of(value) != schema().default_of(row)))
    return refuse(entry, fmt::format("{} is not available in this version", key));
  if (const Draft::Entry* there = draft_.find(key)) {
    if (json_of(there->value) == json_of(value))
      return drop(entry, fmt::format("{} says the same", key));
    return refuse(entry, fmt::format("{} is {} already", key, flow_text(there->value)));
  }
  const bool same_value = flow_text(value) == flow_text(entry.value) && entry.note.empty();
  const Change::Action action = !same_value         ? Change::Action::translated
                                : key == entry.path ? Change::Action::unchanged
                                                    : Change::Action::renamed;
  why = joined(joined(std::move(why), entry.note), spelled);
  const std::string comment = action == Change::Action::unchanged ? ""
                              : action == Change::Action::renamed ? "was " + entry.path
                                                                  : as_comment(entry, key);
  record(entry, action,
         action == Change::Action::translated ? fmt::format("{}: {}", key, flow_text(value))
                                              : std::string(key),
         std::move(why));
  const bool is_default = !row.required && json_of(value) == schema().default_of(row);
  if (entry.place.source == below_ && is_default) return;
  draft_.put({std::string(key), std::move(value), entry.place, comment});
}

void Rewriter::drop(const OldEntry& entry, std::string why) {
  record(entry, Change::Action::dropped, "", std::move(why));
}

void Rewriter::refuse(const OldEntry& entry, std::string why) {
  leftovers_.push_back(fmt::format("not migrated: {}: {} ({})", entry.path,
                                   flow_text(without_secrets(entry.value, entry.path)), why));
  record(entry, Change::Action::not_migrated, "", std::move(why));
}

void Rewriter::replace(const OldEntry& entry, std::string_view key, Node value,
                       const std::string& why) {
  const Draft::Entry* there = draft_.find(key);
  if (there && json_of(there->value) == json_of(value)) return;
  if (there) {
    const auto own =
        std::ranges::find_if(changes_, [&](const Change& change) { return change.now == key; });
    if (own != changes_.end()) {
      own->action = Change::Action::translated;
      own->now = fmt::format("{}: {}", key, flow_text(value));
      own->why = joined(own->why, why);
    }
  }
  draft_.put({std::string(key), std::move(value), there ? there->place : entry.place, why});
}

void Rewriter::record(const OldEntry& entry, Change::Action action, std::string now,
                      std::string why) {
  changes_.push_back({action, entry.path, places_.locate(entry.place), std::move(now),
                      std::move(why), entry.place});
}

void Rewriter::fill_in(std::string_view key, Node value, std::string why) {
  if (draft_.find(key)) return;
  changes_.push_back({Change::Action::filled_in,
                      std::string(key),
                      "",
                      fmt::format("{}: {}", key, flow_text(value)),
                      why,
                      {}});
  draft_.put({std::string(key), std::move(value), {}, std::move(why)});
}

void Rewriter::finish() {
  // What a waiting key holds may itself wait (difficulty_range inside data.sampling).
  for (std::size_t i = 0; i < waiting_.size(); ++i) {
    const OldEntry entry = waiting_[i];
    translation_of(entry.key)(*this, entry);
  }
  waiting_.clear();
  settle_implied();
}

void Rewriter::imply(const OldEntry& entry, std::string_view key, const char* value,
                     std::string why) {
  record(entry, Change::Action::translated, fmt::format("{}: {}", key, value), why);
  replace(entry, key, plain_scalar(value, entry.place), why);
}

// What the old form meant without saying so.
void Rewriter::settle_implied() {
  constexpr const char* kRatio = "data_sampling.correct_ratio";
  constexpr const char* kBalance = "data_sampling.balance_correct";
  constexpr const char* kCheckpoint = "models.value_model.checkpoint_path";
  const Draft::Entry* ratio = draft_.find(kRatio);
  if (ratio && ratio->value.real == 1 && draft_.text_of(kBalance) != "true")
    imply({kRatio, kRatio, ratio->place, {}}, kBalance, "true",
          "correct_ratio: 1.0 has no effect without it");
  if (draft_.text_of("experiment.stage") != "verifiable") return;
  if (implies_gae_ && !draft_.find("training.td.mode"))
    imply(*implies_gae_, "training.td.mode", "gae", "a flat td_* key meant it");
  const Draft::Entry* checkpoint = draft_.find(kCheckpoint);
  if (checkpoint && !checkpoint->value.is(Node::Kind::null) &&
      !draft_.find("training.value.source"))
    imply({kCheckpoint, kCheckpoint, checkpoint->place, {}}, "training.value.source", "model",
          "the checkpoint of a value model meant it");
}

}  // namespace wmtp::config
