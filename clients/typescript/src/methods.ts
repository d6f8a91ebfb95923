// Made by generate.py from the JSON Schemas of `stenolog serve`: change those, not this.

import type {
  Methods,
  About,
  AgentRequest,
  AnswerParams,
  AppendParams,
  AtParams,
  Blob,
  BlobParams,
  ClaimParams,
  ClaimsParams,
  Conversations,
  ConversationsParams,
  DraftParams,
  Entries,
  EntriesParams,
  FenceParams,
  ForkParams,
  Forked,
  Hits,
  JoinParams,
  Joined,
  Nothing,
  OpenClaims,
  OutputParams,
  OutputText,
  RenewParams,
  RequestParams,
  SearchParams,
  SettleParams,
  State,
  SubmitParams,
  Timeline,
  Transitions,
  TransitionsParams,
  Work,
  WrittenEntries,
} from "./types.js";

/** Each method of the service as a function. */
export abstract class ServiceMethods {
  /** Call a method by its name. */
  abstract call<M extends keyof Methods>(method: M, params: Methods[M]["params"]): Promise<Methods[M]["result"]>;

  /** Return the version of stenolog, and that of this protocol. */
  about(params: Nothing = {}): Promise<About> {
    return this.call("about", params);
  }

  /** Return the names of conversations. */
  conversations(params: ConversationsParams = {}): Promise<Conversations> {
    return this.call("conversations", params);
  }

  /** Append events, all of them or none; with ids of their own, a repeated call writes nothing. */
  append(params: AppendParams): Promise<WrittenEntries> {
    return this.call("append", params);
  }

  /** Append a command if the state allows it: an approval, a stop, a change of mode. */
  submit(params: SubmitParams): Promise<WrittenEntries> {
    return this.call("submit", params);
  }

  /** Have an agent take part with this card; nothing is appended if it does already. */
  join(params: JoinParams): Promise<Joined> {
    return this.call("join", params);
  }

  /** Return an agent's request: the body to send, and the receipt to give back with the answer. */
  request(params: RequestParams): Promise<AgentRequest> {
    return this.call("request", params);
  }

  /**
   * Append the outcome of a model call of one's own loop: the answer, or the failure with its
   * text.
   */
  answer(params: AnswerParams): Promise<WrittenEntries> {
    return this.call("answer", params);
  }

  /** Return the entries of a conversation, in order; damaged and erased ones have another kind. */
  entries(params: EntriesParams): Promise<Entries> {
    return this.call("entries", params);
  }

  /** Return the state of every lane, the settings, and the effects that the log asks for next. */
  state(params: AtParams): Promise<State> {
    return this.call("state", params);
  }

  /** Return the items that a user interface shows. */
  timeline(params: AtParams): Promise<Timeline> {
    return this.call("timeline", params);
  }

  /** Return the engine's steps, entry by entry. */
  transitions(params: TransitionsParams): Promise<Transitions> {
    return this.call("transitions", params);
  }

  /** Return the entries that contain words, the best first. */
  search(params: SearchParams): Promise<Hits> {
    return this.call("search", params);
  }

  /** Return a part of a large output, by the alias that requests name it by. */
  output(params: OutputParams): Promise<OutputText> {
    return this.call("output", params);
  }

  /** Return a new conversation that shares the entries up to a position. */
  fork(params: ForkParams): Promise<Forked> {
    return this.call("fork", params);
  }

  /** Claim the model calls and tool calls that are due; those of dead runners are settled before. */
  claim(params: ClaimParams): Promise<Work> {
    return this.call("claim", params);
  }

  /** Append the outcome of a claimed effect, and end the claim, in one transaction. */
  settle(params: SettleParams): Promise<WrittenEntries> {
    return this.call("settle", params);
  }

  /** Keep text of an answer as it streams: if the runner dies, the log has it. */
  draft(params: DraftParams): Promise<Nothing> {
    return this.call("draft", params);
  }

  /** Let a claimed effect go that was not begun, or may be begun again. */
  release(params: FenceParams): Promise<Nothing> {
    return this.call("release", params);
  }

  /** Report that a runner is still at work on what it has claimed. */
  renew(params: RenewParams): Promise<Nothing> {
    return this.call("renew", params);
  }

  /** Return the effects that runners are at, in whatever language they are written. */
  claims(params: ClaimsParams = {}): Promise<OpenClaims> {
    return this.call("claims", params);
  }

  /** Keep bytes, to be named by an event that is appended next. */
  putBlob(params: Blob): Promise<BlobParams> {
    return this.call("put_blob", params);
  }

  /** Return the bytes of a picture, a file or a long text. */
  blob(params: BlobParams): Promise<Blob> {
    return this.call("blob", params);
  }
}
