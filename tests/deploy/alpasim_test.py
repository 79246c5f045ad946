#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""deploy/alpasim: alpasim_test.py MODEL. Frames and histories against values worked out by hand, then a driver over a real engine. Where the
modules grpc and alpasim_grpc are installed, also its service: the plan that comes back over the wire is the driver's own."""
import math, os, sys
from types import SimpleNamespace

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../deploy/alpasim"))
import slipstream_alpasim as bridge
from slipstream_alpasim import Session, State, add_picture, add_states, ego_of, intent_of, local_poses, yaw_of

CAMERAS = ["left", "front", "right"]


def near(got, want, what, within=1e-9):
    if abs(got - want) > within:
        raise AssertionError(f"{what}: expected {want}, got {got}")


def expect(ok, what):
    if not ok:
        raise AssertionError(what)


def check_frames():
    half = math.pi / 6
    near(yaw_of(SimpleNamespace(w=math.cos(half), x=0, y=0, z=math.sin(half))), math.pi / 3, "a turn about z")
    # At (10, 20), looking along +y of the local frame: one metre forward of the rig is one metre along y.
    now = State(5_000_000, 10.0, 20.0, 1.5, math.pi / 2)
    poses = local_poses([(1.0, 0.0), (2.0, 1.0), (2.0, 1.0)], now)
    expect(poses[0] == (5_000_000, 10.0, 20.0, math.pi / 2), "the first pose is the ego's own")
    expect([p[0] for p in poses[1:]] == [5_250_000, 5_500_000, 5_750_000], "four points a second")
    near(poses[1][1], 10.0, "x"), near(poses[1][2], 21.0, "y"), near(poses[1][3], math.pi / 2, "yaw")
    near(poses[2][1], 9.0, "one metre to the left"), near(poses[2][2], 22.0, "y")
    near(poses[2][3], math.pi * 3 / 4, "yaw"), near(poses[3][3], math.pi * 3 / 4, "who stands keeps the heading")


def circle(t_us, radius=50.0, speed=10.0):
    """Left round (0, radius), from the origin along x."""
    angle = speed * t_us * 1e-6 / radius
    return State(t_us, radius * math.sin(angle), radius * (1 - math.cos(angle)), 0.0, angle, (speed, 0.0), (0.0, speed**2 / radius))


def check_history():
    session = Session(seed=1)
    add_states(session, [circle(t * 100_000) for t in range(100)])
    expect(session.states[0].t_us == 3_900_000, "what no history reaches is dropped")
    history = ego_of(session)["history"]
    near(history[-1][0], 0, "the last time"), near(history[-1][1], 0, "x"), near(history[-1][2], 0, "y"), near(history[-1][3], 10, "vx")
    for t, x, y, vx, vy, ax, ay in history:  # seen from the last state the circle is the same one
        angle = 10 * t / 50
        near(x, 50 * math.sin(angle), "x"), near(y, 50 * (1 - math.cos(angle)), "y")
        near(vx, 10 * math.cos(angle), "vx"), near(vy, 10 * math.sin(angle), "vy")
        near(ax, -2 * math.sin(angle), "ax"), near(ay, 2 * math.cos(angle), "ay")
    # Without velocities they are told by places, to second order of the 0.1 s between them.
    bare = Session(seed=1)
    add_states(bare, [State(s.t_us, s.x, s.y, s.z, s.yaw) for s in session.states])
    middle = ego_of(bare)["history"][30]
    near(math.hypot(middle[3], middle[4]), 10, "speed by places", 2e-3)
    # A young session goes back at its first speed, as far as a prompt reaches.
    young = Session(seed=1)
    add_states(young, [circle(0), circle(100_000)])
    history = ego_of(young)["history"]
    near(history[0][0], -3.75, "reaches back"), expect(sorted(h[0] for h in history) == [h[0] for h in history], "times ascend")
    near(history[0][1], history[-2][1] - history[-2][3] * 3.65, "x of the first")
    add_states(young, [circle(100_000), circle(50_000)])
    expect([s.t_us for s in young.states] == [0, 50_000, 100_000], "in order, one of a time")


def check_session():
    expect(intent_of([]) == "GO_STRAIGHT" and intent_of([(30, 1)]) == "GO_STRAIGHT", "straight")
    expect(intent_of([(5, 0), (25, 6), (30, 20)]) == "GO_LEFT" and intent_of([(10, -5)]) == "GO_RIGHT", "turns")
    session = Session(seed=1)
    add_picture(session, "front", 200, b"new")
    add_picture(session, "front", 100, b"late")
    expect(session.pictures["front"] == b"new", "a picture that arrives late does not replace a newer one")


def fill(session):
    for camera in CAMERAS:
        add_picture(session, camera, 1, open(PICTURE, "rb").read())
    add_states(session, [circle(t * 100_000) for t in range(60)])


def check_driver(engine):
    driver = bridge.Driver(engine, CAMERAS, decoder="scaffold-spec")
    session = driver.sessions["a"] = Session(seed=3)
    expect(driver.plan(session) is None, "nothing to plan from yet")
    fill(session)
    first, now = driver.plan(session)
    again, _ = driver.plan(session)  # drafted by the first
    expect(first.valid and first.tokens.tolist() == again.tokens.tolist(), "an earlier answer changes nothing")
    expect(now.t_us == 5_900_000 and len(first.trajectory.points_4hz) >= 12, "from the last pose on, as far as the model looks")
    return first


def check_service(engine, want):
    try:
        import grpc
        from alpasim_grpc.v0 import common_pb2 as common
        from alpasim_grpc.v0 import egodriver_pb2 as messages
        from alpasim_grpc.v0 import egodriver_pb2_grpc as rpc
    except ImportError as error:
        print(f"alpasim_test: the service was not tried: {error}")
        return
    server = bridge._service(bridge.Driver(engine, CAMERAS, decoder="scaffold-spec"), "test")
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        client = rpc.EgodriverServiceStub(channel)
        expect(client.get_version(common.Empty()).version_id.startswith("slipstream "), "version")
        try:
            client.drive(messages.DriveRequest(session_uuid="nobody"))
            expect(False, "a session that nobody started")
        except grpc.RpcError as error:
            expect(error.code() == grpc.StatusCode.NOT_FOUND, "not found")
        client.start_session(messages.DriveSessionRequest(session_uuid="s", random_seed=3))
        expect(not client.drive(messages.DriveRequest(session_uuid="s")).trajectory.poses, "an empty plan until there is something to see")
        for camera in CAMERAS:
            image = messages.RolloutCameraImage.CameraImage(frame_end_us=1, image_bytes=open(PICTURE, "rb").read(), logical_id=camera)
            client.submit_image_observation(messages.RolloutCameraImage(session_uuid="s", camera_image=image))
        poses, dynamics = [], []
        for s in (circle(t * 100_000) for t in range(60)):
            quat = common.Quat(w=math.cos(s.yaw / 2), z=math.sin(s.yaw / 2))
            poses.append(common.PoseAtTime(pose=common.Pose(vec=common.Vec3(x=s.x, y=s.y), quat=quat), timestamp_us=s.t_us))
            velocity, acceleration = common.Vec3(x=s.velocity[0]), common.Vec3(y=s.acceleration[1])
            dynamics.append(common.DynamicState(linear_velocity=velocity, linear_acceleration=acceleration))
        moved = messages.RolloutEgoTrajectory(session_uuid="s", trajectory=common.Trajectory(poses=poses), dynamic_states=dynamics)
        client.submit_egomotion_observation(moved)
        route = messages.Route(waypoints=[common.Vec3(x=x) for x in (5, 15, 25)])
        client.submit_route(messages.RouteRequest(session_uuid="s", route=route))
        got = client.drive(messages.DriveRequest(session_uuid="s", time_now_us=5_900_000)).trajectory.poses
        end = circle(5_900_000)
        expect(got[0].timestamp_us == 5_900_000 and len(got) == 1 + len(want.trajectory.points_4hz), "as many points as the model plans")
        for pose, point in zip(got[1:], want.trajectory.points_4hz):
            x, y = bridge.rotated(float(point[0]), float(point[1]), end.yaw)
            near(pose.pose.vec.x, end.x + x, "x over the wire", 0.26)  # f32 on the wire may move a history's last digit, and a bin with it
            near(pose.pose.vec.y, end.y + y, "y over the wire", 0.26)
        client.close_session(messages.DriveSessionCloseRequest(session_uuid="s"))
    server.stop(grace=0).wait()
    print("alpasim_test: the service was tried")


check_frames()
check_history()
check_session()
import slipstream

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
PICTURE = os.path.join(ROOT, "tests/fixtures/models/qwen2_5_vl/image_0.png")
loaded = slipstream.Engine.load(sys.argv[1])
check_service(loaded, check_driver(loaded))
print("alpasim_test: ok")
