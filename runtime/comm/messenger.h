#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/model.h"
#include "core/timeline.h"
#include "runtime/comm/node_map.h"
#include "runtime/device/device.h"

namespace sluice {

class Collective;
class Messenger;

/// One message of a collective, or a call that MPI itself spreads over a group (no peer).
struct Message {
  /// What the sender says of the bytes, where transfers are verified.
  struct Checksum {
    std::uint64_t value = 0;
    int incomplete = 2;  ///< message and checksum, which are complete in any order
  };

  std::shared_ptr<Collective> collective;
  bool sending = false;
  Rank peer = kNone;
  std::byte* data = nullptr;
  std::int64_t offset = 0;  ///< in the collective's payload [B]
  std::int64_t bytes = 0;   ///< at most chunk_bytes
  int step = 0;             ///< for the collective: which of its steps this is a piece of
  std::shared_ptr<Checksum> checksum = {};
  bool is_checksum = false;  ///< this is the one that follows
};

/// One rank's part in a collective: which messages are next when one is complete.
class Collective : public std::enable_shared_from_this<Collective> {
 public:
  Collective(std::int64_t bytes, int tag, Event ready) : bytes_(bytes), tag_(tag), ready_(std::move(ready)) {}
  virtual ~Collective() = default;
  Collective(const Collective&) = delete;
  Collective& operator=(const Collective&) = delete;

  [[nodiscard]] virtual const char* name() const = 0;
  /// The buffer may be used: posts the first messages. Called once, before anything else.
  virtual void begin(Messenger& messenger) = 0;
  /// A message that this has posted is complete.
  virtual void complete(Messenger& messenger, const Message& message) = 0;
  /// Nothing more will be posted, and all that was is complete.
  [[nodiscard]] virtual bool done() const = 0;
  /// Collectives that name the same communicator begin in the order of their starts; MPI_COMM_NULL: in any.
  [[nodiscard]] virtual MPI_Comm queue() const { return MPI_COMM_NULL; }

  [[nodiscard]] std::int64_t bytes() const { return bytes_; }
  [[nodiscard]] int tag() const { return tag_; }
  [[nodiscard]] const Event& ready() const { return ready_; }

  /// Payload bytes of its messages that are complete, by link class.
  [[nodiscard]] const LinkBytes& sent_bytes() const { return sent_bytes_; }
  [[nodiscard]] const LinkBytes& received_bytes() const { return received_bytes_; }
  void count(bool sent, LinkKind link, std::int64_t bytes);

 private:
  std::int64_t bytes_;
  int tag_;
  Event ready_;
  LinkBytes sent_bytes_{};
  LinkBytes received_bytes_{};
};

/// Posts the messages of collectives and takes their completions. Messages from
/// one rank to another with one tag arrive in the order of their posts: MPI keeps it.
class Messenger {
 public:
  /// @param chunk_bytes  the most that one message may carry
  Messenger(MPI_Comm comm, NodeMap nodes, std::int64_t chunk_bytes);
  /// Gives up what is still in flight.
  ~Messenger();
  Messenger(const Messenger&) = delete;
  Messenger& operator=(const Messenger&) = delete;

  /// As Communicator::verify_transfers.
  void verify() { verifies_ = true; }

  [[nodiscard]] int max_tag() const { return max_tag_; }
  [[nodiscard]] std::int64_t chunk_bytes() const { return chunk_bytes_; }

  /// Begins the collective once it is ready: here, or in a later advance().
  /// @throws Error (runtime fault) naming a tag or a size that does not fit.
  void start(const std::shared_ptr<Collective>& collective);

  // For collectives.

  [[nodiscard]] LinkKind link_to(Rank peer) const;
  /// A send is complete only when its receive has begun (MPI_Issend): so a payload's slot, not MPI's memory, holds what
  /// a slow peer does not take.
  void post(Message message);
  /// Calls MPI_Ibcast; nothing is counted for it.
  /// @param message  without a peer
  /// @param root     in `comm`
  void broadcast(Message message, int root, MPI_Comm comm);
  /// A move from a rank to itself is a copy, no traffic.
  void count(Collective& collective, bool sent, Rank peer, std::int64_t bytes);

  /// One round: begins what has become ready, takes what is complete.
  /// @return true if anything moved
  bool advance();

  /// What `collective` still waits for, for people.
  [[nodiscard]] std::string missing(const Collective& collective) const;

  [[nodiscard]] const LinkBytes& sent_bytes() const { return sent_bytes_; }
  [[nodiscard]] const LinkBytes& received_bytes() const { return received_bytes_; }

 private:
  struct Completion {
    Message message;
    MPI_Status status;
    int code;
  };

  bool begin_what_is_ready();
  void adopt(Message message, MPI_Request request);
  void attach_checksum(Message& message) const;
  void compare(const Message& message) const;
  [[nodiscard]] std::vector<Completion> take_completions();
  void check(const Completion& completion) const;
  void settle(const Completion& completion);
  [[nodiscard]] std::string name(const Message& message) const;

  MPI_Comm comm_;
  Rank rank_ = 0;
  int max_tag_ = 0;
  NodeMap nodes_;
  std::int64_t chunk_bytes_;
  bool verifies_ = false;
  std::vector<std::shared_ptr<Collective>> waiting_;  ///< for their `ready`, or for their turn
  std::vector<MPI_Request> requests_;
  std::vector<Message> messages_;  ///< messages_[i] belongs to requests_[i]
  LinkBytes sent_bytes_{};
  LinkBytes received_bytes_{};
};

}  // namespace sluice
