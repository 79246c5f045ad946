#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A Slipstream model as the driver of an AlpaSim simulation (the service of its egodriver.proto).

    slipstream_alpasim.py MODEL [--listen HOST:PORT] [--cameras LEFT,FRONT,RIGHT] [--decoder NAME] ...

Needs the Python modules slipstream, grpc, and alpasim_grpc (AlpaSim's own: its messages are not repeated here).

A session keeps the newest picture of each camera, the ego's poses and velocities, and where the route leads. `drive` answers with the model's
plan from the last pose on, in the local frame: a pose for now, then four a second, as far as the model looks ahead. Without a picture of each
camera or without a pose the plan is empty, which AlpaSim takes for "not ready yet". The previous answer of a session drafts its next one, which
changes how long an answer takes and never what it says.

Frames: AlpaSim's rig frame (x forward, y left, origin below the rear axle) is Slipstream's ego frame. Lengths in m, angles in rad, times in s
unless a name says otherwise.
"""

import argparse
import json
import math
import sys
import threading
from concurrent import futures
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Tuple

HISTORY_S = 3.75  # what a model's prompt reaches back
KEPT_S = 6.0  # of poses: what the history needs, and room for gaps
STEP_S = 0.25  # of the plan's points
ROUTE_AHEAD_M = 20.0  # the route's first point at least so far ahead says where it leads
ROUTE_ASIDE_M = 2.0  # so far to a side there it turns
STANDING_M = 0.05  # between two points of a plan: below that the heading stays


@dataclass
class State:
    """The ego at one time: the rig's place and heading in the local frame, velocity and acceleration in the rig's own frame."""

    t_us: int
    x: float
    y: float
    z: float
    yaw: float
    velocity: Optional[Tuple[float, float]] = None
    acceleration: Tuple[float, float] = (0.0, 0.0)


@dataclass
class Session:
    seed: int
    pictures: Dict[str, bytes] = field(default_factory=dict)  # newest, by camera
    pictures_us: Dict[str, int] = field(default_factory=dict)
    states: List[State] = field(default_factory=list)  # ascending in time, one per time
    intent: str = "GO_STRAIGHT"
    previous: Any = None  # answer
    plans: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


def yaw_of(quat) -> float:
    """The rotation about z of a unit quaternion (w, x, y, z)."""
    return math.atan2(2 * (quat.w * quat.z + quat.x * quat.y), 1 - 2 * (quat.y * quat.y + quat.z * quat.z))


def rotated(x: float, y: float, angle: float) -> Tuple[float, float]:
    c, s = math.cos(angle), math.sin(angle)
    return c * x - s * y, s * x + c * y


def add_picture(session: Session, camera: str, t_us: int, picture: bytes) -> None:
    """The newest of each camera is kept; one that arrives late does not replace it."""
    if t_us >= session.pictures_us.get(camera, 0):
        session.pictures[camera], session.pictures_us[camera] = picture, t_us


def add_states(session: Session, states: List[State]) -> None:
    """States of a time that is there already replace it; what no history reaches any more is dropped."""
    by_time = {s.t_us: s for s in session.states}
    by_time.update((s.t_us, s) for s in states)
    ordered = [by_time[t] for t in sorted(by_time)]
    session.states = [s for s in ordered if s.t_us >= ordered[-1].t_us - int(KEPT_S * 1e6)]


def intent_of(waypoints: List[Tuple[float, float]]) -> str:
    """Where a route of (x, y) in the rig frame leads: GO_LEFT or GO_RIGHT where it is ROUTE_ASIDE_M to a side ROUTE_AHEAD_M ahead."""
    far = [p for p in waypoints if math.hypot(*p) >= ROUTE_AHEAD_M]
    aside = (far[0] if far else waypoints[-1] if waypoints else (0.0, 0.0))[1]
    return "GO_LEFT" if aside > ROUTE_ASIDE_M else "GO_RIGHT" if aside < -ROUTE_ASIDE_M else "GO_STRAIGHT"


def _velocity(states: List[State], i: int) -> Tuple[float, float]:
    """In the rig frame of state i: as told, else by differences of places."""
    s = states[i]
    if s.velocity is not None:
        return s.velocity
    a, b = states[max(i - 1, 0)], states[min(i + 1, len(states) - 1)]
    if a is b:
        return 0.0, 0.0
    dt = (b.t_us - a.t_us) * 1e-6
    return rotated((b.x - a.x) / dt, (b.y - a.y) / dt, -s.yaw)


def ego_of(session: Session) -> Dict[str, Any]:
    """The session's states as Slipstream's ego history (docs/guide/inputs.md): seen from the last of them, t = 0 there, at least HISTORY_S
    long. A younger session is continued backwards at the speed of its first state."""
    states, now = session.states, session.states[-1]
    history = []
    for i, s in enumerate(states):
        x, y = rotated(s.x - now.x, s.y - now.y, -now.yaw)
        vx, vy = rotated(*_velocity(states, i), s.yaw - now.yaw)
        ax, ay = rotated(*s.acceleration, s.yaw - now.yaw)
        history.append([(s.t_us - now.t_us) * 1e-6, x, y, vx, vy, ax, ay])
    t, x, y, vx, vy = history[0][:5]
    earlier = []
    while t > -HISTORY_S:
        step = min(STEP_S, t + HISTORY_S)
        t, x, y = t - step, x - vx * step, y - vy * step
        earlier.insert(0, [-HISTORY_S if t < -HISTORY_S + 1e-9 else t, x, y, vx, vy, 0.0, 0.0])
    return {"intent": session.intent, "history": earlier + history}


def local_poses(points, now: State) -> List[Tuple[int, float, float, float]]:
    """(time in us, x, y, yaw) in the local frame: where the ego is, then the plan's points (N x 2, the rig frame of `now`, STEP_S apart)."""
    out = [(now.t_us, now.x, now.y, now.yaw)]
    before, yaw = (0.0, 0.0), 0.0
    for i, (px, py) in enumerate(points, start=1):
        px, py = float(px), float(py)
        dx, dy = px - before[0], py - before[1]
        if math.hypot(dx, dy) > STANDING_M:
            yaw = math.atan2(dy, dx)
        x, y = rotated(px, py, now.yaw)
        out.append((now.t_us + round(i * STEP_S * 1e6), now.x + x, now.y + y, now.yaw + yaw))
        before = (px, py)
    return out


class Driver:
    """What answers, without gRPC: sessions by name, one engine. An engine is asked by one session at a time."""

    def __init__(self, engine, cameras: List[str], **asked):
        self.engine, self.cameras, self.asked = engine, cameras, asked
        self.sessions: Dict[str, Session] = {}
        self.lock = threading.Lock()

    def plan(self, session: Session):
        """The answer for what the session has seen and the state that it starts from; None while something is missing."""
        with session.lock:
            if not session.states or any(c not in session.pictures for c in self.cameras):
                return None
            now, ego = session.states[-1], ego_of(session)
            pictures = [session.pictures[c] for c in self.cameras]
            previous, seed = session.previous, (session.seed + session.plans) % 2**63
        with self.lock:
            answer = self.engine.answer(images=pictures, ego=ego, seed=seed, previous_answer=previous, **self.asked)
        with session.lock:
            session.previous, session.plans = answer, session.plans + 1
        return answer, now


def _service(driver: Driver, name: str):
    """The gRPC service over `driver`. Here because its base class is AlpaSim's."""
    import grpc
    from alpasim_grpc import API_VERSION_MESSAGE
    from alpasim_grpc.v0 import common_pb2 as common
    from alpasim_grpc.v0 import egodriver_pb2 as messages
    from alpasim_grpc.v0 import egodriver_pb2_grpc as rpc

    import slipstream

    def trajectory(points, now: State):
        poses = []
        for t_us, x, y, yaw in local_poses(points, now):
            quat = common.Quat(w=math.cos(yaw / 2), z=math.sin(yaw / 2))
            poses.append(common.PoseAtTime(pose=common.Pose(vec=common.Vec3(x=x, y=y, z=now.z), quat=quat), timestamp_us=t_us))
        return common.Trajectory(poses=poses)

    def states_of(request) -> List[State]:
        poses, dynamics = request.trajectory.poses, request.dynamic_states
        if dynamics and len(dynamics) != len(poses):
            raise ValueError(f"expected one dynamic state per pose, got {len(dynamics)} for {len(poses)}")
        out = []
        for i, p in enumerate(poses):
            s = State(p.timestamp_us, p.pose.vec.x, p.pose.vec.y, p.pose.vec.z, yaw_of(p.pose.quat))
            if dynamics:
                v, a = dynamics[i].linear_velocity, dynamics[i].linear_acceleration
                s.velocity, s.acceleration = (v.x, v.y), (a.x, a.y)
            out.append(s)
        return out

    class Service(rpc.EgodriverServiceServicer):
        def _session(self, request, context) -> Session:
            found = driver.sessions.get(request.session_uuid)
            if found is None:
                context.abort(grpc.StatusCode.NOT_FOUND, f"session {request.session_uuid}: expected one that was started, got another")
            return found

        def start_session(self, request, context):
            there = {c.logical_id for c in request.rollout_spec.vehicle.available_cameras}
            missing = [c for c in driver.cameras if there and c not in there]
            if missing:
                context.abort(grpc.StatusCode.FAILED_PRECONDITION,
                              f"expected cameras {', '.join(missing)} (--cameras), got {', '.join(sorted(there))}")
            driver.sessions[request.session_uuid] = Session(seed=request.random_seed)
            return common.SessionRequestStatus()

        def close_session(self, request, context):
            driver.sessions.pop(request.session_uuid, None)
            return common.Empty()

        def submit_image_observation(self, request, context):
            session, image = self._session(request, context), request.camera_image
            if image.logical_id in driver.cameras:
                with session.lock:
                    add_picture(session, image.logical_id, image.frame_end_us, image.image_bytes)
            return common.Empty()

        def submit_egomotion_observation(self, request, context):
            session = self._session(request, context)
            try:
                states = states_of(request)
            except ValueError as error:
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
            with session.lock:
                if states:
                    add_states(session, states)
            return common.Empty()

        def submit_route(self, request, context):
            session = self._session(request, context)
            with session.lock:
                session.intent = intent_of([(p.x, p.y) for p in request.route.waypoints])
            return common.Empty()

        def submit_recording_ground_truth(self, request, context):
            return common.Empty()  # a driver does not look at it

        def drive(self, request, context):
            try:
                planned = driver.plan(self._session(request, context))
            except slipstream.Error as error:
                context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
            if planned is None:
                return messages.DriveResponse()
            answer, now = planned
            told = {"fields": dict(answer.texts), "valid": answer.valid, "forwards": answer.statistics.forwards}
            told["infeasible"] = list(answer.trajectory.infeasible)
            debug = messages.DriveResponse.DebugInfo(
                unstructured_debug_info=json.dumps(told).encode(),
                sampled_trajectories=[trajectory(r, now) for r in answer.trajectory.rollouts] if driver.asked.get("rollouts", 1) > 1 else [])
            return messages.DriveResponse(trajectory=trajectory(answer.trajectory.points_4hz, now), debug_info=debug)

        def get_version(self, request, context):
            return common.VersionId(version_id=f"slipstream {slipstream.__version__} {name}", grpc_api_version=API_VERSION_MESSAGE)

        def shut_down(self, request, context):
            self.server.stop(grace=1)
            return common.Empty()

    server = grpc.server(futures.ThreadPoolExecutor(max_workers=8))
    service = Service()
    service.server = server
    rpc.add_EgodriverServiceServicer_to_server(service, server)
    return server


def main() -> int:
    parser = argparse.ArgumentParser(description="A Slipstream model as an AlpaSim driver.")
    parser.add_argument("model", help="the model's folder")
    parser.add_argument("--listen", default="127.0.0.1:6789", help="address and port (%(default)s)")
    parser.add_argument("--cameras", default="camera_cross_left_120fov,camera_front_wide_120fov,camera_cross_right_120fov",
                        help="AlpaSim's names of the cameras, in the model's order (%(default)s)")
    parser.add_argument("--decoder", default="auto", help="how answers are decoded; exact ones give the same plans (%(default)s)")
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--rollouts", type=int, default=1, help="plans sampled behind one shared prompt; all are told as debug information")
    parser.add_argument("--threads", type=int, default=0, help="0: every core")
    options = parser.parse_args()
    try:
        import alpasim_grpc  # noqa: F401
        import slipstream
    except ImportError as error:
        print(f"slipstream_alpasim: {error}: expected the modules slipstream, grpc and alpasim_grpc", file=sys.stderr)
        return 2
    try:
        engine = slipstream.Engine.load(options.model, threads=options.threads)
    except slipstream.Error as error:
        print(f"slipstream_alpasim: {error}", file=sys.stderr)
        return 1
    cameras = [c for c in options.cameras.split(",") if c]
    driver = Driver(engine, cameras, decoder=options.decoder, temperature=options.temperature, rollouts=options.rollouts)
    server = _service(driver, options.model)
    if server.add_insecure_port(options.listen) == 0:
        print(f"slipstream_alpasim: expected an address that is free, got {options.listen}", file=sys.stderr)
        return 1
    server.start()
    print(f"slipstream_alpasim: listens at {options.listen}", file=sys.stderr, flush=True)
    try:
        server.wait_for_termination()
    except KeyboardInterrupt:
        server.stop(grace=1).wait()
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
